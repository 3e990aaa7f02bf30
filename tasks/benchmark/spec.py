"""Spec of a benchmark: methods, held-out instances and budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.solvers.budgets import Budget
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.strategies import Decoding
from mcvrp.tasks.support.registry import OneOf
from mcvrp.tasks.support.spec import (
    MOST_CUSTOMERS,
    MOST_OF_SOLVERS,
    MOST_SAMPLES,
    MOST_SECONDS,
    CapacityRange,
    DemandRange,
    KeptShare,
    ModelVersion,
    OrdersSpec,
    PolishTemperature,
    Rotations,
    Temperature,
    unset,
)

DEFAULT_METHODS = ("hgs", "pyvrp", "lkh3", "fm-gs", "fm-ns")
DEFAULT_TIME_LIMIT = 5.0  # seconds per run (Sec. 5.1)
T = TypeVar("T")
_Count = Annotated[int, Field(ge=1, le=MOST_CUSTOMERS)]
_Samples = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
_Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
_MethodName = Annotated[str, OneOf(all_methods)]
_Iterations = Annotated[
    int | None,
    Field(ge=1, le=MOST_OF_SOLVERS, description="Iterations without improvement, instead of a time limit"),
]


def _time_limit(solver: str) -> Any:
    text = f"Time limit per run of {solver} in seconds (default: 5, or iterations)"
    return Field(None, gt=0, le=MOST_SECONDS, description=text)


def _values(value: T | tuple[T, ...]) -> tuple[T, ...]:
    return value if isinstance(value, tuple) else (value,)


class BenchmarkSpec(OrdersSpec):
    """A benchmark: methods, held-out instances, budgets."""

    run: str = Field("benchmark", pattern=NAME_PATTERN, description="Name of the benchmark in the store")
    version: ModelVersion = Field(None, exclude_if=unset)
    sizes: tuple[_Count, ...] = Field(min_length=1, description="Instance sizes (customers)")
    instances: _Count | tuple[_Count, ...] = Field(
        1000, description="Number of instances, the same for all sizes or one per size"
    )
    seed: int = Field(1, ge=0, description="Random seed of the instances, the solvers and the samples")
    methods: tuple[_MethodName, ...] = Field(
        DEFAULT_METHODS, min_length=1, description="Methods to compare (rows of the tables)"
    )
    samples: tuple[_Samples, ...] = Field(
        (1, 16), min_length=1, description="Numbers of samples per instance"
    )
    heuristic_samples: tuple[_Samples, ...] = Field(
        (1,), min_length=1, description="Numbers of runs of the heuristics"
    )
    p: KeptShare = 0.9
    temperature: Temperature = 1.0
    polish_temperature: PolishTemperature = None
    rotations: Rotations = 1000
    beam_width: _Samples | Annotated[tuple[_Samples, ...], Field(min_length=1)] = Field(
        16, description="Beam width, or a list of widths: one row of the tables per width"
    )
    equal_time: _Seconds | Annotated[tuple[_Seconds, ...], Field(min_length=1)] = Field(
        5.0, description="Time limit of the equal-time rows in seconds, or a list: one row per limit"
    )
    attention: str | None = Field(
        None,
        pattern=NAME_PATTERN,
        description="Name of the attention models in the store (default: the city's name)",
    )
    hgs_time_limit: float | None = _time_limit("HGS")
    hgs_iterations: _Iterations = None
    hgs_fleet: Literal["default"] | Annotated[int, Field(ge=1, le=MOST_OF_SOLVERS)] | None = Field(
        None,
        description="Maximum number of vehicles for HGS (if unset: label.fleet; default: its own bound)",
    )
    pyvrp_time_limit: float | None = _time_limit("PyVRP")
    pyvrp_iterations: _Iterations = None
    demand: DemandRange = None
    capacity: CapacityRange = None
    workers: int | None = Field(
        None, ge=1, description="Number of cores for heuristics and decoding (default: all)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("sizes", "samples", "heuristic_samples", "beam_width", "equal_time"):
            values = _values(getattr(self, name))
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} = {list(values)} must ascend")
        if len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods = {list(self.methods)} names a method twice")
        if isinstance(self.instances, tuple) and len(self.instances) != len(self.sizes):
            raise ValueError(f"instances = {self.instances} must be one number, or one for each size")
        for solver in ("hgs", "pyvrp"):
            if getattr(self, f"{solver}_time_limit") and getattr(self, f"{solver}_iterations"):
                raise ValueError(f"{solver}_time_limit and {solver}_iterations exclude each other: unset one")
        return self

    @property
    def counts(self) -> dict[int, int]:
        """Number of instances by size."""
        if isinstance(self.instances, int):
            return dict.fromkeys(self.sizes, self.instances)
        return dict(zip(self.sizes, self.instances, strict=True))

    def each(self, name: Literal["beam_width", "equal_time"]) -> tuple[Self, ...]:
        """Return this spec with each value of field ``name`` alone."""
        return tuple(self.model_copy(update={name: value}) for value in _values(getattr(self, name)))

    @property
    def decoding(self) -> Decoding:
        """Decoding settings; of several beam widths, the widest."""
        return Decoding(self.p, self.temperature, _values(self.beam_width)[-1])

    @property
    def polished_decoding(self) -> Decoding:
        """Decoding settings of samples that are improved by local search."""
        return replace(self.decoding, temperature=self.polish_temperature or self.temperature)

    @property
    def neural(self) -> tuple[str, ...]:
        """Methods that need a model."""
        return tuple(name for name in self.methods if all_methods()[name].network == "fm")

    def samples_of(self, method: str) -> tuple[int, ...]:
        """Return the numbers of samples of ``method`` in the tables."""
        return all_methods()[method].samples(self)

    def options_of(self, method: str) -> dict[str, Any]:
        """Return the arguments of the solver of ``method``; empty if it has none.

        Of several time limits of equal time, the longest.
        """
        entry = all_methods()[method]
        if entry.program is None:
            return {}
        if entry.equal_time:
            return {"time_limit": _values(self.equal_time)[-1], "tuned": entry.tuned}
        takes = SOLVERS[entry.program].takes
        options = {option: getattr(self, f"{entry.program}_{option}", None) for option in takes}
        if "time_limit" in options and not options.get("iterations"):
            options["time_limit"] = options["time_limit"] or DEFAULT_TIME_LIMIT
            options["tuned"] = entry.tuned
        return options

    def time_limit(self, method: str) -> float | None:
        """Return the time limit of one run of ``method`` in seconds, None if it has none."""
        return self.options_of(method).get("time_limit")

    def seconds_of(self, method: str, n: int) -> float:
        """Return the estimated time of the solver of ``method`` per instance in seconds, all runs."""
        entry, options = all_methods()[method], self.options_of(method)
        if entry.alone_seconds:
            return self.samples_of(method)[-1] * entry.alone_seconds(n)
        if entry.program is None:
            return 0.0
        if entry.equal_time:
            return sum(_values(self.equal_time))
        budget = Budget(options.get("time_limit"), options.get("iterations"))
        return self.samples_of(method)[-1] * SOLVERS[entry.program].estimate(budget, n)
