"""Units of labelling work: the recipe of a dataset, the rows for one worker, and the receipt it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mcvrp.model.instances import InstanceStream, Rules, Split
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.labels.shards import Shard
from mcvrp.tasks.solvers.budgets import Budget, BudgetName, budget_for
from mcvrp.tasks.solvers.registry import SolverEntry

ATTEMPTS = 3  # runs of the solver before an instance is quarantined
LONGEST_INSTANCE = 60.0  # seconds: minimum time limit of an instance, on a machine that is busy
UNIT_GRACE = 300.0  # seconds: added to the limit of a unit, for the store
_SLOWEST = 20.0  # time limit as a multiple of the estimate
_COUNTS = 50  # signs of life per unit, as thousands of workers have one driver


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


@dataclass(frozen=True)
class Unit:
    """Rows ``start`` to ``stop`` (excluded) of size ``n``, for one worker.

    ``shard_rows`` is the number of labels per shard if the rows are whole shards, which the worker publishes;
    None if they are part of one shard, and are staged: appended to the chunk that begins at row ``chunk``, by
    default ``start``, and ends with them. An ``isolated`` unit is solved in a separate process, so that a
    crash or a hang costs one instance only. ``seconds`` is the estimated duration, ``seeds`` are
    the first seeds of the solver, by i, of instances that earlier runs have not solved.
    """

    n: int
    start: int
    stop: int
    shard_rows: int | None = None
    chunk: int | None = None
    isolated: bool = False
    seconds: float = 0.0
    seeds: Mapping[int, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def instance_seconds(self) -> float:
        """Time limit of an instance in seconds: after it, the solver counts as hanging."""
        return max(LONGEST_INSTANCE, _SLOWEST * self.seconds / self.rows)

    @property
    def limit(self) -> float:
        """Time limit between two signs of life in seconds: after it, the worker is killed."""
        return UNIT_GRACE + ATTEMPTS * self.instance_seconds

    @property
    def count_seconds(self) -> float:
        """Seconds between two signs of life."""
        return min(max(2.0, self.seconds / _COUNTS), 60.0)

    def files(self, dataset: str) -> Iterator[tuple[str, int, int, int]]:
        """Yield the path of each file, its first row, and the rows to be labelled, start and stop."""
        if self.shard_rows is None:
            first = self.start if self.chunk is None else self.chunk
            yield layout.staged_chunk(dataset, self.n, first, self.stop), first, self.start, self.stop
            return
        for start in range(self.start, self.stop, self.shard_rows):
            path = layout.label_shard(dataset, self.n, start // self.shard_rows)
            yield path, start, start, min(start + self.shard_rows, self.stop)


@dataclass(frozen=True)
class Failure:
    """Instance (n, ``i``) that no attempt has solved; ``crashed`` if the solver did, or took too long.

    ``seed`` is the last one tried.
    """

    i: int
    reason: str
    solver: str
    version: str
    seed: int
    attempts: int = ATTEMPTS
    crashed: bool = False


@dataclass(frozen=True)
class UnitReceipt:
    """Result of a unit: number of labels, failures, seconds in the solver, and the files that it has written.

    These are a staged file or ``shards``, with their checksums and figures: they need not be read.
    """

    rows: int
    failures: tuple[Failure, ...]
    solving: float
    chunk: LabelFile | None = None
    shards: tuple[Shard, ...] = ()


class UnitCount(NamedTuple):
    """Number of labels that a unit has made so far, and how many of them are stored."""

    made: int = 0
    stored: int = 0


Outcome = Label | Failure
