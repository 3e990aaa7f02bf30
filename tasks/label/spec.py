"""Spec of a dataset of labels: what it is asked to be, what one in the store says it is, and estimates."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from mcvrp.model.errors import McvrpError, brief
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import LABEL
from mcvrp.tasks.label.work import LabelRecipe
from mcvrp.tasks.solvers.budgets import Budget, BudgetName, budget_for
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

Demand = Annotated[int, Field(ge=1, le=2**16 - 1)]
Capacity = Annotated[int, Field(ge=1, le=2**32 - 1)]
DEFAULT_TIME_LIMIT = 5.0  # seconds an instance (Sec. 5.1)
_FOUND = 100  # characters of what is wrong with a stored spec
_OPTIONS = ("time_limit", "iterations", "fleet", "budget", "population", "granular")  # not all solvers take


class LabelSpec(OrdersSpec):
    """A dataset of labels: ``count`` instances of each size from ``smallest`` to ``largest``."""

    dataset: str = Field(pattern=NAME_PATTERN, description="Name of the dataset in the store")
    smallest: int = Field(ge=1, le=MOST_CUSTOMERS, description="Smallest instance size (customers)")
    largest: int = Field(ge=1, le=MOST_CUSTOMERS, description="Largest instance size (customers)")
    count: int = Field(ge=1, le=2**32 - 1, description="Number of instances per size")
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
        description="Predefined budget of hgs by instance size, instead of the next four fields",
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
    population: int | None = Field(
        None, ge=2, le=MOST_OF_SOLVERS, description="Minimum population size of hgs (default: 25)"
    )
    granular: int | None = Field(
        None, ge=1, le=MOST_OF_SOLVERS, description="Granular neighbourhood size of hgs (default: 20)"
    )
    demand: DemandRange = None
    capacity: CapacityRange = None
    shard_rows: int = Field(25_000, ge=1, description="Number of labels per file")
    workers: int | None = Field(None, ge=1, description="Number of cores (default: all)")

    @model_validator(mode="before")
    @classmethod
    def _default_budget(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(name := values.get("solver", "hgs"), str):
            return values
        solver = SOLVERS.get(name)
        if solver is None or "time_limit" not in solver.takes:
            return values
        given = [values.get(field) for field in ("budget", "time_limit", "iterations")]
        return values if given != [None] * 3 else {**values, "time_limit": DEFAULT_TIME_LIMIT}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.smallest > self.largest:
            raise ValueError(f"smallest = {self.smallest} is above largest = {self.largest}")
        if self.time_limit is not None and self.iterations is not None:
            raise ValueError("time_limit and iterations exclude each other: give one")
        for field in _OPTIONS:
            value, who = getattr(self, field), takers(field)
            if value not in (None, "default") and self.solver not in who:
                raise ValueError(_not_taken(self.solver, field, value, " or ".join(who)))
        if self.budget and any((self.time_limit, self.iterations, self.population, self.granular)):
            raise ValueError(
                f"budget = {self.budget} stands for time_limit, iterations, population, granular: "
                "leave them out, or budget"
            )
        if self.held_out and self.split != "train":
            raise ValueError(f"held_out = {self.held_out} goes with split train, not {self.split}")
        if self.demand and not 1 <= self.demand[0] <= self.demand[1] < 2**16:
            raise ValueError(f"demand = {list(self.demand)} is no range within 1 to 65535")
        least = self.demand[1] if self.demand else 1
        if self.capacity and not least <= self.capacity[0] <= self.capacity[1] < 2**32:
            raise ValueError(
                f"capacity = {list(self.capacity)} is no range from the largest demand, {least}, up"
            )
        return self

    @property
    def sizes(self) -> range:
        """The numbers of customers."""
        return range(self.smallest, self.largest + 1)

    @property
    def rows(self) -> int:
        """The number of labels."""
        return self.count * len(self.sizes)

    @property
    def partitions(self) -> int:
        """The number of sizes, each a folder of its own."""
        return len(self.sizes)

    @property
    def chosen_budget(self) -> BudgetName | Budget:
        """The name of the budget, or what the fields say."""
        return self.budget or Budget(self.time_limit, self.iterations, self.population, self.granular)

    @property
    def held_out_dataset(self) -> str:
        """The dataset of the instances that training is watched by."""
        return f"{self.dataset}-held-out"

    @property
    def datasets(self) -> tuple[Self, ...]:
        """This dataset and, where ``held_out`` is not 0, the held-out one: split valid, same budget."""
        if not self.held_out:
            return (self,)
        apart = {"dataset": self.held_out_dataset, "split": "valid", "count": self.held_out, "held_out": 0}
        return self, self.model_copy(update=apart)

    def identity(self, city: City) -> dict[str, object]:
        """Return the fields that a dataset cannot change: sizes and counts may grow, workers may vary."""
        chosen = self.in_city(city).model_dump(
            mode="json", exclude={"dataset", "smallest", "largest", "count", "held_out", "workers"}
        )
        return {"schema_version": LABEL.version, "city_id": city.city_id, **chosen}

    def recipe(self, city: City) -> LabelRecipe:
        """Return what a worker needs to know."""
        decides = {key: value for key, value in self.identity(city).items() if key != "shard_rows"}
        text = json.dumps(decides, sort_keys=True)
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


def _not_taken(solver: str, field: str, value: object, who: str) -> str:
    if field == "time_limit":
        return f"{solver} has no time_limit here: give iterations, if it takes them, or nothing"
    return f"{field} = {value}: only {who} {'takes a fleet' if field == 'fleet' else 'has one'}"


@dataclass(frozen=True)
class Source:
    """The spec that a dataset was made from, and its city."""

    spec: LabelSpec
    city: City

    @cached_property
    def recipe(self) -> LabelRecipe:
        """All that decides the labels."""
        return self.spec.recipe(self.city)

    @property
    def stream(self) -> InstanceStream:
        """The instances that are labelled."""
        return self.recipe.stream(self.city)


def stored_spec(store: Store, dataset: str) -> tuple[LabelSpec, str]:
    """Return the spec of the dataset ``dataset`` and the id of its city.

    Raises
    ------
    McvrpError
        If the spec is missing or corrupt.
    """
    path = layout.label_spec(dataset)
    there = store.get_json(path)
    try:
        fields = dict(there)
        city_id, _ = str(fields.pop("city_id")), fields.pop("schema_version")
        return LabelSpec.model_validate({**fields, "dataset": dataset}), city_id
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise McvrpError(
            f"{store.url(path)} is no spec of labels ({_first(error)}): "
            "remove it, mcvrp label writes it again"
        ) from error


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return brief(str(error), _FOUND)
    first = error.errors(include_url=False)[0]
    return brief(": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]])), _FOUND)


def seconds_an_instance(spec: LabelSpec, n: int) -> float:
    """Return about how long one core takes for an instance of ``n`` customers, write-up included."""
    return SOLVERS[spec.solver].estimate(budget_for(spec.chosen_budget, n), n)
