"""Spec of a dataset of labels: the request, the document in the store, and runtime estimates."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mcvrp.model.errors import McvrpError, brief, shown
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import city_text
from mcvrp.storage.labels.schema import SCHEMA_VERSION
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.storage.parsing import parse_json
from mcvrp.storage.provenance import FIELD
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.units import LabelRecipe
from mcvrp.tasks.solvers.budgets import TUNED, Budget, BudgetName, budget_for
from mcvrp.tasks.solvers.registry import SOLVERS, takers
from mcvrp.tasks.support.registry import OneOf
from mcvrp.tasks.support.spec import (
    MOST_CUSTOMERS,
    MOST_OF_SOLVERS,
    MOST_SECONDS,
    CapacityRange,
    DemandRange,
    OrdersSpec,
)

DEFAULT_TIME_LIMIT = 5.0  # seconds per instance (Sec. 5.1)
MOST_ROWS = 25_000  # labels per file
_FEWEST_ROWS, _FILES = 64, 8  # of a file, of a size: the default of shard_rows
_FILE_SECONDS = 600.0  # of a core per file: what a kill may cost
_MOST_CHARACTERS = 100  # of the reason why a stored spec is invalid
_OPTIONS = ("time_limit", "iterations", "fleet", "budget")  # of some solvers only
_MOST_COUNT = 10_000_000  # labels of a size: 78 times the paper's, a slip beyond
_EXTENT = ("smallest", "largest", "count")  # fields that later runs may extend


class LabelSpec(OrdersSpec):
    """A dataset of labels: ``count`` instances of each size from ``smallest`` to ``largest``."""

    dataset: str = Field(pattern=NAME_PATTERN, description="Name of the dataset in the store")
    smallest: int = Field(ge=1, le=MOST_CUSTOMERS, description="Smallest instance size (customers)")
    largest: int = Field(ge=1, le=MOST_CUSTOMERS, description="Largest instance size (customers)")
    count: int = Field(ge=1, le=_MOST_COUNT, description="Number of instances per size")
    seed: int = Field(1, ge=0, description="Random seed of the instance stream")
    split: Literal["train", "valid", "test"] = Field(
        "train", description="train, valid or test: they share no instance"
    )
    held_out: int = Field(
        0, ge=0, description="Number of held-out instances per size for validation during training"
    )
    solver: Annotated[str, OneOf(SOLVERS.keys)] = Field("hgs", description="Solver of the instances")
    fleet: Literal["default"] | Annotated[int, Field(ge=1, le=MOST_OF_SOLVERS)] = Field(
        "default", description="Maximum number of vehicles for hgs (default: its own bound; the paper: 10000)"
    )
    budget: BudgetName | None = Field(
        None,
        description="Predefined budget of hgs by instance size, instead of the next two fields",
    )
    time_limit: float | None = Field(
        None,
        gt=0,
        le=MOST_SECONDS,
        description="Time limit per instance in seconds (default: 5 if iterations is not set)",
    )
    iterations: int | None = Field(
        None,
        ge=1,
        le=MOST_OF_SOLVERS,
        description="Iterations without improvement (lkh3: trials), instead of a time limit",
    )
    tuned: bool = Field(
        True,
        description="With a time limit, settings of hgs or pyvrp for it and the size, instead of its own "
        "(the paper: false)",
    )
    demand: DemandRange = None
    capacity: CapacityRange = None
    shard_rows: int | None = Field(
        None,
        ge=1,
        le=MOST_ROWS,
        description="Maximum number of labels per file, which one worker makes (default: an eighth of count, "
        "64 to 25,000; never more than ten minutes of a core)",
    )
    workers: int | None = Field(None, ge=1, description="Number of cores (default: all)")

    @model_validator(mode="before")
    @classmethod
    def _default_budget(cls, values: Any) -> Any:
        # Before validation, so that the default becomes part of the identity; not every solver takes one.
        if not isinstance(values, dict) or not isinstance(name := values.get("solver", "hgs"), str):
            return values
        solver = SOLVERS.get(name)
        if solver is None:
            return values
        budget = [values.get(name) for name in ("budget", "time_limit", "iterations")]
        if budget == [None] * 3 and "time_limit" in solver.takes:
            values = {**values, "time_limit": DEFAULT_TIME_LIMIT}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.smallest > self.largest:
            raise ValueError(f"smallest = {self.smallest} is above largest = {self.largest}")
        if self.time_limit is not None and self.iterations is not None:
            raise ValueError(
                "time_limit and iterations exclude each other: unset one (--set label.iterations=)"
            )
        for name in _OPTIONS:
            value, solvers = getattr(self, name), takers(name)
            if value not in (None, "default") and self.solver not in solvers:
                raise ValueError(_unsupported(self.solver, name, value, " or ".join(solvers)))
        if self.budget and (self.time_limit or self.iterations):
            raise ValueError(
                f"budget = {self.budget} sets the iterations: unset either budget (--set label.budget=), or "
                "time_limit and iterations"
            )
        if self.held_out and self.split != "train":
            raise ValueError(f"held_out = {self.held_out} requires split train, not {self.split}")
        return self

    @property
    def sizes(self) -> range:
        return range(self.smallest, self.largest + 1)

    @property
    def rows(self) -> int:
        return self.count * len(self.sizes)

    @property
    def partitions(self) -> int:
        return len(self.sizes)

    @property
    def file_rows(self) -> int:
        """Maximum number of labels per file of a dataset that begins with this spec."""
        return self.shard_rows or min(max(-(-self.count // _FILES), _FEWEST_ROWS), MOST_ROWS)

    @property
    def chosen_budget(self) -> BudgetName | Budget:
        tuned = self.tuned and self.time_limit is not None and "tuned" in SOLVERS[self.solver].takes
        return self.budget or Budget(self.time_limit, self.iterations, tuned=self.solver if tuned else None)

    @property
    def held_out_dataset(self) -> str:
        """The name of the held-out dataset, which training validates on."""
        return f"{self.dataset}-held-out"

    @property
    def datasets(self) -> tuple[Self, ...]:
        """This dataset and, unless ``held_out`` is 0, the held-out one: split valid, same budget."""
        if not self.held_out:
            return (self,)
        # Same seed, other split: the streams of two splits share no instance.
        changes = {"dataset": self.held_out_dataset, "split": "valid", "count": self.held_out, "held_out": 0}
        return self, self.model_copy(update=changes)

    def identity(self, city: City) -> dict[str, object]:
        """Return the fields that are fixed for a dataset: its extent may grow, and workers may vary."""
        # With the ranges of the city filled in: the same spec in a city with other ranges is another dataset.
        chosen = self.in_city(city).model_dump(
            mode="json", exclude={"dataset", "held_out", "workers", "shard_rows", "tuned", *_EXTENT}
        )
        tuned = isinstance(self.chosen_budget, Budget) and self.chosen_budget.tuned
        version = TUNED if tuned else ""  # other tuned settings make other labels
        return {"schema_version": SCHEMA_VERSION, "city_id": city.city_id, **chosen, "tuned": version}

    def recipe(self, city: City) -> LabelRecipe:
        """Return the settings that a worker needs."""
        text = json.dumps(self.identity(city), sort_keys=True)
        return LabelRecipe(
            dataset=self.dataset,
            spec_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
            seed=self.seed,
            split=self.split,
            rules=self.rules_in(city),
            solver=SOLVERS[self.solver],
            fleet=self.fleet,
            budget=self.chosen_budget,
        )


def taken_by(solver: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the ``fields`` of a spec that ``solver`` takes; all if there is no such solver."""
    entry = SOLVERS.get(solver)
    foreign = set(_OPTIONS) - set(entry.takes) if entry else ()
    return {name: value for name, value in fields.items() if name not in foreign}


def _unsupported(solver: str, name: str, value: object, solvers: str) -> str:
    unset = f"unset it (--set label.{name}=)"
    if name == "time_limit":
        return f"{solver} does not support time_limit: give iterations if it supports them, or {unset}"
    return f"{name} = {value} is only supported by {solvers}, the solver is {solver}: {unset}"


@dataclass(frozen=True)
class Source:
    """The spec of a dataset and its city: together they determine its instances."""

    spec: LabelSpec
    city: City

    @cached_property
    def recipe(self) -> LabelRecipe:
        return self.spec.recipe(self.city)

    @property
    def stream(self) -> InstanceStream:
        return self.recipe.stream(self.city)


@dataclass(frozen=True)
class SpecDocument:
    """Spec of a dataset as the store has it: its ``fields``, empty if there are none."""

    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, dataset: str) -> SpecDocument:
        """Return the document of ``dataset``; McvrpError if it is not JSON or has no extent."""
        path = layout.label_spec(dataset)
        if (data := store.find(path)) is None:
            return cls()
        with contextlib.suppress(ValueError):
            document = parse_json(data)
            numbers = (*_EXTENT, "shard_rows")
            if isinstance(document, dict) and all(type(document.get(name)) is int for name in numbers):
                return cls(document)
        raise _no_spec(store.url(path), "it has no numbers of instances and labels")

    def require_same(self, store: Store, source: Source) -> None:
        """Raise McvrpError if the dataset in ``store`` was made from another spec or city than ``source``."""
        name, city, stored_city = source.spec.dataset, source.city, self.fields.get("city_id")
        if stored_city not in (None, city.city_id):
            raise McvrpError(
                f"dataset {name!r} is of city {city_text(store, str(stored_city))}, not of "
                f"{city_text(store, city.city_id)}: name that city (city.name), or another dataset"
            )
        identity = source.spec.identity(city)
        if source.spec.shard_rows:
            identity["shard_rows"] = source.spec.shard_rows
        stored = self.fields
        differing = [key for key in identity if stored and stored.get(key) != identity[key]]
        if differing:
            values = [(key, shown(stored.get(key)), shown(identity[key])) for key in differing]
            details = "; ".join(f"{key} is {old}, requested {new}" for key, old, new in values)
            raise McvrpError(
                f"dataset {name!r} was made from another spec ({details}): request the same, "
                "or another name (--set label.dataset=NAME)"
            )

    def requests(self, n: int, rows: int) -> bool:
        """Return whether the first ``rows`` instances of size ``n`` were ever requested."""
        smallest, largest, count = (self.fields[name] for name in _EXTENT)
        return smallest <= n <= largest and rows <= count

    def rows_per_file(self, spec: LabelSpec, n: int) -> int:
        """Return the number of labels per file of size ``n``: at most ten minutes of a core, or one label."""
        most: int = self.fields.get("shard_rows", spec.file_rows)
        return max(1, min(most, int(_FILE_SECONDS / seconds_per_instance(spec, n))))

    def extended(self, source: Source) -> SpecDocument:
        """Return the document with everything that was ever requested: a smaller run removes nothing."""
        spec, fields = source.spec, self.fields
        return SpecDocument(
            {
                **spec.identity(source.city),
                "smallest": min(spec.smallest, fields.get("smallest", spec.smallest)),
                "largest": max(spec.largest, fields.get("largest", spec.largest)),
                "count": max(spec.count, fields.get("count", spec.count)),
                "shard_rows": fields.get("shard_rows", spec.file_rows),
                **({FIELD: fields[FIELD]} if FIELD in fields else {}),
            }
        )


def stored_spec(store: Store, dataset: str) -> tuple[LabelSpec, str]:
    """Return the spec of ``dataset`` and the id of its city; McvrpError if the spec is missing or corrupt."""
    where, fields = store.url(layout.label_spec(dataset)), SpecDocument.read(store, dataset).fields
    if not fields:
        raise McvrpError(f"there is no {where}: mcvrp label writes it, except for nights and rounds")
    own = {name: fields[name] for name in fields.keys() - {"city_id", "schema_version", FIELD}}
    try:
        spec = LabelSpec.model_validate({**own, "dataset": dataset, "tuned": bool(fields.get("tuned"))})
        return spec, str(fields["city_id"])
    except (KeyError, ValueError) as error:
        raise _no_spec(where, brief(" ".join(str(error).split()), _MOST_CHARACTERS)) from error


def _no_spec(where: str, why: str) -> McvrpError:
    return McvrpError(f"{where} is not a spec of labels ({why}): remove it, mcvrp label recreates it")


def seconds_per_instance(spec: LabelSpec, n: int) -> float:
    """Return the estimated seconds that one core takes for an instance of ``n`` customers."""
    return SOLVERS[spec.solver].estimate(budget_for(spec.chosen_budget, n), n)
