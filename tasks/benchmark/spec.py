"""Which methods meet on which held-out instances, and what each may spend."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.spec import (
    CapacityRange,
    DemandRange,
    KeptShare,
    OrdersSpec,
    Rotations,
    Temperature,
    TopK,
)

MethodName = Literal[
    "hgs",
    "pyvrp",
    "lkh3",
    "am",
    "fm-gs",
    "fm-ns",
    "fm-bs",
    "fm-ls",
    "fm-rrc",
    "hgs-equal",
    "pyvrp-equal",
    "fm-hgs",
    "fm-pyvrp",
]
LABELS: dict[MethodName, str] = {
    "hgs": "HGS",
    "pyvrp": "PyVRP",
    "lkh3": "LKH-3",
    "am": "AM (VS)",
    "fm-gs": "FM-MCVRP (GS)",
    "fm-ns": "FM-MCVRP (NS)",
    "fm-bs": "FM-MCVRP (BS)",
    "fm-ls": "FM-MCVRP (NS) + local search",
    "fm-rrc": "FM-MCVRP (NS) + re-construction",
    "hgs-equal": "HGS (equal time)",
    "pyvrp-equal": "PyVRP (equal time)",
    "fm-hgs": "FM-MCVRP (NS) + HGS (equal time)",
    "fm-pyvrp": "FM-MCVRP (NS) + PyVRP (equal time)",
}
HEURISTICS = ("hgs", "pyvrp", "lkh3")  # a sample is a run with a seed of its own
NEURAL = ("fm-gs", "fm-ns", "fm-bs", "fm-ls", "fm-rrc", "fm-hgs", "fm-pyvrp")  # need a model
FINISHERS: dict[MethodName, Literal["hgs", "pyvrp"]] = {  # who has the rest of the equal time
    "hgs-equal": "hgs",
    "pyvrp-equal": "pyvrp",
    "fm-hgs": "hgs",
    "fm-pyvrp": "pyvrp",
}
DEFAULT_METHODS: tuple[MethodName, ...] = ("hgs", "pyvrp", "lkh3", "fm-gs", "fm-ns")
DEFAULT_TIME_LIMIT = 5.0  # seconds a run (Sec. 5.1)
_Count = Annotated[int, Field(ge=1)]


class BenchmarkSpec(OrdersSpec):
    """A benchmark: methods, held-out instances, budgets."""

    run: str = Field("benchmark", pattern=NAME_PATTERN, description="Name of the benchmark in the store")
    sizes: tuple[_Count, ...] = Field(min_length=1, description="Numbers of customers")
    instances: _Count | tuple[_Count, ...] = Field(
        1000, description="Instances a size, or one number for each size"
    )
    seed: int = Field(1, ge=0, description="Names the instances and everything random")
    methods: tuple[MethodName, ...] = Field(DEFAULT_METHODS, min_length=1, description="Rows of the table")
    samples: tuple[_Count, ...] = Field((1, 16), min_length=1, description="Samples of a network")
    heuristic_samples: tuple[_Count, ...] = Field((1,), min_length=1, description="Runs of the heuristics")
    p: KeptShare = 0.9
    top_k: TopK = None
    temperature: Temperature = 1.0
    rotations: Rotations = 1000
    beam_width: int = Field(16, ge=1, description="Paths of beam search, all of which are answers")
    rounds: int = Field(20, ge=1, description="Rounds of re-construction after the samples")
    part_customers: int = Field(20, ge=1, description="Least customers of a part that is re-constructed")
    part_samples: int = Field(16, ge=1, description="Samples of each such part")
    equal_time: float = Field(5.0, gt=0, description="Seconds of the equal-time rows, decoding included")
    attention: str | None = Field(
        None, pattern=NAME_PATTERN, description="Name of the attention models in the store, else the city's"
    )
    hgs_time_limit: float | None = Field(None, gt=0, description="Seconds a run; or iterations; else 5")
    hgs_iterations: int | None = Field(None, ge=1, description="Iterations without improvement")
    hgs_fleet: Literal["default"] | _Count = Field(
        "default", description="Most vehicles of HGS; default: its own bound"
    )
    pyvrp_time_limit: float | None = Field(None, gt=0, description="Seconds a run; or iterations; else 5")
    pyvrp_iterations: int | None = Field(None, ge=1, description="Iterations without improvement")
    lkh_max_trials: int | None = Field(None, ge=1, description="Trials a run, else the number of customers")
    lkh_runs: int = Field(1, ge=1, description="Runs within LKH-3")
    demand: DemandRange = None
    capacity: CapacityRange = None
    workers: int | None = Field(None, ge=1, description="Cores for the heuristics, else all")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("sizes", "samples", "heuristic_samples"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)) or values[0] < 1:
                raise ValueError(f"{name} = {list(values)} must ascend from 1 or more")
        if len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods = {list(self.methods)} names a method twice")
        counts = self.instances if isinstance(self.instances, tuple) else (self.instances,) * len(self.sizes)
        if len(counts) != len(self.sizes) or min(counts) < 1:
            lacking = [n for k, n in enumerate(self.sizes) if k >= len(counts) or counts[k] < 1]
            without = f", n={lacking[0]} has none" if lacking else ""
            raise ValueError(
                f"instances = {self.instances} must be one number of 1 or more, or one for each size{without}"
            )
        for solver in ("hgs", "pyvrp"):
            if getattr(self, f"{solver}_time_limit") and getattr(self, f"{solver}_iterations"):
                raise ValueError(f"{solver}_time_limit and {solver}_iterations exclude each other: give one")
        return self

    @property
    def counts(self) -> dict[int, int]:
        """Instances of each size."""
        counts = self.instances if isinstance(self.instances, tuple) else (self.instances,) * len(self.sizes)
        return dict(zip(self.sizes, counts, strict=True))

    @property
    def neural(self) -> tuple[MethodName, ...]:
        """The methods that need a model."""
        return tuple(method for method in self.methods if method in NEURAL)

    def samples_of(self, method: MethodName) -> tuple[int, ...]:
        """Return the numbers of samples that the table has of ``method``."""
        if method in HEURISTICS:
            return self.heuristic_samples
        if method in ("am", "fm-ns", "fm-ls"):
            return self.samples
        if method == "fm-bs":
            return (self.beam_width,)
        # what goes on from samples does so from all of them
        return self.samples[-1:] if method in ("fm-rrc", "fm-hgs", "fm-pyvrp") else (1,)

    def time_limit(self, method: MethodName) -> float | None:
        """Return the seconds of one run of ``method``, None where something else ends it."""
        if method in FINISHERS:
            return self.equal_time
        if method not in ("hgs", "pyvrp") or getattr(self, f"{method}_iterations"):
            return None
        return float(getattr(self, f"{method}_time_limit") or DEFAULT_TIME_LIMIT)
