"""What one Ray worker does for a dataset: label the rows of a unit, and stage or publish them.

No Ray, no Prefect, no torch here: a worker imports this and starts at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from model.instances import InstanceStream, Rules, Split
from model.problem import City, cost, philox_key
from storage import layout
from storage.labels import LabelFile, read_footer, write_table
from storage.schemas import SOLVED, Label, label_table
from storage.store import Store
from tasks.hardware import processor
from tasks.label_publish import Piece, publish
from tasks.solvers import Solver
from tasks.solvers.budgets import Budget, BudgetName, budget_for

ATTEMPTS = 3  # runs of the solver before an instance is quarantined
LONGEST_INSTANCE = 60.0  # seconds that even the easiest instance may take
UNIT_GRACE = 300.0  # seconds that even the shortest unit may take
_PATIENCE = 20.0  # times its estimate that anything may take
_SEED_BITS = 30  # what every solver takes

SolverName = Literal["hgs", "pyvrp", "lkh3"]


@dataclass(frozen=True)
class Recipe:
    """Everything that decides which labels a dataset has, apart from its city and its extent."""

    dataset: str
    spec_hash: str
    seed: int
    split: Split
    rules: Rules
    solver: SolverName
    fleet: Literal["default"] | int
    budget: BudgetName | Budget

    def budget_of(self, n: int) -> Budget:
        """Return what a solver may spend on an instance of ``n`` customers."""
        return budget_for(self.budget, n)

    def budget_words(self, n: int) -> str:
        """Return the budget of ``n`` customers in one line, as a label carries it."""
        budget = self.budget_of(n)
        if self.solver == "lkh3":
            return "1 run" if budget.iterations is None else f"1 run, {budget.iterations} trials"
        return budget.words if self.fleet == "default" else f"{budget.words}, fleet {self.fleet}"


def make_solver(recipe: Recipe, n: int) -> Solver:
    """Return the solver that ``recipe`` names for ``n`` customers; SolverMissing when not installed."""
    budget = recipe.budget_of(n)
    if recipe.solver == "hgs":
        from tasks.solvers.hgs import HGS

        return HGS(**budget.options(), fleet=recipe.fleet)
    if recipe.solver == "pyvrp":
        from tasks.solvers.pyvrp import PyVRP

        return PyVRP(budget.time_limit, budget.iterations)
    from tasks.solvers.lkh3 import LKH3

    return LKH3(budget.iterations)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


@dataclass(frozen=True)
class Unit:
    """Rows ``start`` to ``stop`` (excluded) of size ``n``, for one worker.

    Parameters
    ----------
    shard_rows
        Labels a shard where the rows are whole shards, which the worker publishes; None where
        they are a part of one, to be staged.
    careful
        Solve in a process apart, so that a crash or a hang costs one instance only.
    seconds
        About how long they take.
    """

    n: int
    start: int
    stop: int
    shard_rows: int | None = None
    careful: bool = False
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """The number of instances."""
        return self.stop - self.start

    @property
    def instance_seconds(self) -> float:
        """How long one instance may take before its solver counts as hanging."""
        return max(LONGEST_INSTANCE, _PATIENCE * self.seconds / self.rows)

    @property
    def limit(self) -> float:
        """Seconds after which something must be wrong."""
        if self.careful:
            return UNIT_GRACE + ATTEMPTS * self.rows * self.instance_seconds
        return UNIT_GRACE + _PATIENCE * self.seconds

    def shards(self, shard_rows: int) -> Iterator[tuple[int, int, int]]:
        """Yield number, first row and last row (excluded) of each of its shards."""
        for start in range(self.start, self.stop, shard_rows):
            yield start // shard_rows, start, min(start + shard_rows, self.stop)


@dataclass(frozen=True)
class Failure:
    """An instance (n, ``i``) that no attempt has solved; ``seed`` is the last that was tried."""

    i: int
    reason: str
    solver: str
    version: str
    seed: int
    attempts: int


@dataclass(frozen=True)
class Receipt:
    """What a worker did: how many labels, which instances it could not solve, where it staged them.

    ``solving`` of its ``seconds`` were inside the solver.
    """

    rows: int
    failures: tuple[Failure, ...]
    seconds: float
    solving: float
    chunk: LabelFile | None = None


Outcome = Label | Failure


def label_unit(store: Store, city: City, recipe: Recipe, unit: Unit) -> Receipt:
    """Label the rows of ``unit`` and publish them as shards, or stage them as one file.

    Raises
    ------
    McvrpError
        If the store does not take them, or a label is wrong.
    """
    began = time.perf_counter()
    if unit.careful:
        from tasks.label_careful import careful_solving

        with careful_solving(city, recipe, unit) as solve:
            return _label(store, city, recipe, unit, solve, began)
    return _label(store, city, recipe, unit, plain_solving(city, recipe, unit.n), began)


def plain_solving(city: City, recipe: Recipe, n: int) -> Callable[[int], Outcome]:
    """Return the function that labels instance (n, i) for i, in this process."""
    attempt = attempting(city, recipe, n)

    def solve(i: int) -> Outcome:
        first = solver_seed(recipe.seed, n, i)
        for seed in range(first, first + ATTEMPTS):
            outcome = attempt(i, seed)
            if isinstance(outcome, Label):
                break
        return outcome

    return solve


def attempting(city: City, recipe: Recipe, n: int) -> Callable[[int, int], Outcome]:
    """Return the function that tries to label instance (n, i) with a seed of the solver, for both."""
    solver = make_solver(recipe, n)
    stream = InstanceStream(city, recipe.seed, recipe.split, recipe.rules)
    name, version, budget, cpu = solver.label, solver.version, recipe.budget_words(n), processor()

    def attempt(i: int, seed: int) -> Outcome:
        instance = stream(n, i)
        answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
        if answer.solution is None:
            tried = seed - solver_seed(recipe.seed, n, i) + 1
            return Failure(i, answer.failure or "no answer", name, version, seed, tried)
        price = cost(city, answer.solution)
        return Label(
            i, instance, answer.solution, price, SOLVED, name, version, seed, budget, answer.seconds, cpu
        )

    return attempt


def _label(
    store: Store, city: City, recipe: Recipe, unit: Unit, solve: Callable[[int], Outcome], began: float
) -> Receipt:
    made, solving = 0, 0.0
    failures: list[Failure] = []
    chunk: LabelFile | None = None
    parts = [(None, unit.start, unit.stop)] if unit.shard_rows is None else unit.shards(unit.shard_rows)
    for k, start, stop in parts:
        shard = None if k is None else layout.label_shard(recipe.dataset, unit.n, k)
        if shard and (there := _published(store, shard, stop)):  # by this unit, whose worker was lost
            made += there
            continue
        outcomes = [solve(i) for i in range(start, stop)]
        labels = [outcome for outcome in outcomes if isinstance(outcome, Label)]
        failed = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        piece = Piece(label_table(labels), tuple(failure.i for failure in failed))
        if shard:
            publish(store, city, recipe.spec_hash, shard, unit.n, start, stop, [piece])
        else:
            path = layout.staged_chunk(recipe.dataset, unit.n, start, stop)
            chunk = write_table(store, path, city, recipe.spec_hash, unit.n, piece.table, piece.absent)
        made += len(labels)
        failures += failed
        solving += sum(label.runtime for label in labels)
    return Receipt(made, tuple(failures), time.perf_counter() - began, solving, chunk)


def _published(store: Store, shard: str, stop: int) -> int:
    """Return how many rows the shard has if it is whole up to row ``stop``, else 0."""
    if not store.exists(shard):
        return 0
    footer = read_footer(store, shard)
    return footer.rows if footer.row_stop >= stop and not footer.absent else 0
