"""Units of labelling work: the recipe of a dataset, the file that a worker makes, and its receipt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mcvrp.model.instances import InstanceStream, Rules, Split
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.tasks.solvers.budgets import Budget, BudgetName, budget_for
from mcvrp.tasks.solvers.registry import SolverEntry


@dataclass(frozen=True)
class LabelRecipe:
    """Settings that determine the labels of a dataset, except for its city and extent."""

    dataset: str
    spec_hash: str
    seed: int
    split: Split
    rules: Rules
    solver: SolverEntry
    fleet: Literal["default"] | int
    budget: BudgetName | Budget

    def stream(self, city: City) -> InstanceStream:
        return InstanceStream(city, self.seed, self.split, self.rules)

    def budget_of(self, n: int) -> Budget:
        """Return the solver budget of an instance of ``n`` customers."""
        return budget_for(self.budget, n)

    def budget_text(self, n: int) -> str:
        """Return the budget of ``n`` customers as text, for the column of a label."""
        budget = self.budget_of(n)
        if "time_limit" not in self.solver.takes:  # such a solver has a stopping criterion of its own
            return "1 run" if budget.iterations is None else f"1 run, {budget.iterations} trials"
        return budget.description if self.fleet == "default" else f"{budget.description}, fleet {self.fleet}"


@dataclass(frozen=True, slots=True)  # there may be hundreds of thousands
class Unit:
    """A file of labels to be made by one worker: rows ``start`` to ``stop`` (excluded) of size ``n``.

    A row takes about ``seconds``.
    """

    n: int
    start: int
    stop: int
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def path(self, dataset: str) -> str:
        return layout.label_file(dataset, self.n, self.start, self.stop)

    def __str__(self) -> str:
        return f"rows {self.start} to {self.stop} (excluded) of n={self.n}"


@dataclass(frozen=True)
class UnitReceipt:
    """Result of a unit: the file that it created has ``rows`` labels.

    ``absent`` are the rows that no attempt has solved, with the reason. Without ``rows`` another worker has
    created the file before, or none was created because of a ``failure``: no row was solved of those tried.
    """

    rows: int = 0
    absent: Mapping[int, str] = field(default_factory=dict)
    failure: str = ""
