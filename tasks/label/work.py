"""Work units of labelling: the recipe of a dataset, the rows that a worker takes, the receipt it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mcvrp.model.instances import InstanceStream, Rules, Split
from mcvrp.model.problem import City
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.schema import Label
from mcvrp.tasks.solvers.budgets import Budget, BudgetName, budget_for
from mcvrp.tasks.solvers.registry import SolverEntry

ATTEMPTS = 3  # runs of the solver before an instance is quarantined
LONGEST_INSTANCE = 60.0  # seconds that even the easiest instance may take
UNIT_GRACE = 300.0  # seconds that even the shortest unit may take
_SLOWEST = 20.0  # times its estimate: what anything may take


@dataclass(frozen=True)
class LabelRecipe:
    """Everything that decides which labels a dataset has, apart from its city and its extent."""

    dataset: str
    spec_hash: str
    seed: int
    split: Split
    rules: Rules
    solver: SolverEntry
    fleet: Literal["default"] | int
    budget: BudgetName | Budget

    def stream(self, city: City) -> InstanceStream:
        """Return the instances in ``city``."""
        return InstanceStream(city, self.seed, self.split, self.rules)

    def budget_of(self, n: int) -> Budget:
        """Return what a solver may spend on an instance of ``n`` customers."""
        return budget_for(self.budget, n)

    def budget_text(self, n: int) -> str:
        """Return the budget of ``n`` customers in one line, as a label carries it."""
        budget = self.budget_of(n)
        if "time_limit" not in self.solver.takes:  # it knows itself when to stop
            return "1 run" if budget.iterations is None else f"1 run, {budget.iterations} trials"
        return budget.description if self.fleet == "default" else f"{budget.description}, fleet {self.fleet}"


@dataclass(frozen=True)
class Unit:
    """Rows ``start`` to ``stop`` (excluded) of size ``n``, for one worker.

    Parameters
    ----------
    shard_rows
        Labels a shard where the rows are whole shards, which the worker publishes; None where
        they are a part of one, to be staged.
    isolated
        Solve in a process apart, so that a crash or a hang costs one instance only.
    seconds
        About how long they take.
    seeds
        The solver's first seed for those of them, by i, that earlier runs have left without an answer;
        only where it is isolated.
    """

    n: int
    start: int
    stop: int
    shard_rows: int | None = None
    isolated: bool = False
    seconds: float = 0.0
    seeds: Mapping[int, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of instances."""
        return self.stop - self.start

    @property
    def instance_seconds(self) -> float:
        """Seconds that one instance may take before its solver counts as hanging."""
        return max(LONGEST_INSTANCE, _SLOWEST * self.seconds / self.rows)

    @property
    def limit(self) -> float:
        """Seconds after which something must be wrong."""
        if self.isolated:
            return UNIT_GRACE + ATTEMPTS * self.rows * self.instance_seconds
        return UNIT_GRACE + _SLOWEST * self.seconds

    def shards(self, shard_rows: int) -> Iterator[tuple[int, int, int]]:
        """Yield number, first row and last row (excluded) of each of its shards."""
        for start in range(self.start, self.stop, shard_rows):
            yield start // shard_rows, start, min(start + shard_rows, self.stop)


@dataclass(frozen=True)
class Failure:
    """An instance (n, ``i``) that no attempt has solved.

    ``seed`` is the last that was tried; ``crashed`` where the solver died of it or took too long.
    """

    i: int
    reason: str
    solver: str
    version: str
    seed: int
    attempts: int
    crashed: bool = False


@dataclass(frozen=True)
class UnitReceipt:
    """Receipt of a unit: how many labels, which instances could not be solved, where they are staged.

    ``solving`` of its ``seconds`` were inside the solver.
    """

    rows: int
    failures: tuple[Failure, ...]
    seconds: float
    solving: float
    chunk: LabelFile | None = None


Outcome = Label | Failure
