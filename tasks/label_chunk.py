"""What one Ray worker does for a dataset: label a run of rows, or merge staged runs into a shard.

No Ray, no Prefect, no torch here: a worker imports this and starts at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from model.errors import McvrpError
from model.instances import InstanceStream, Rules, Split
from model.problem import City, cost, philox_key
from storage import layout
from storage.labels import LabelFile, read_footer, read_table, write_labels, write_table
from storage.schemas import SOLVED, Label
from storage.store import Store
from tasks.solvers import Solver, checked_budget

_ATTEMPTS = 3  # seeds to try before an instance counts as failed
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
    population: int | None
    time_limit: float | None
    iterations: int | None

    @property
    def budget(self) -> str:
        """What a solver may spend on an instance, in words."""
        if self.solver == "lkh3":
            return "1 run" if self.iterations is None else f"1 run, {self.iterations} trials"
        words = checked_budget(self.time_limit, self.iterations)
        if self.fleet != "default":
            words += f", fleet {self.fleet}"
        return words if self.population is None else f"{words}, population {self.population}"


@dataclass(frozen=True)
class Receipt:
    """What a worker did: ``rows`` labels at ``path``, ``solving`` of its seconds inside the solver."""

    path: str
    rows: int
    seconds: float
    solving: float


def make_solver(recipe: Recipe) -> Solver:
    """Return the solver that ``recipe`` names; SolverMissing when it is not installed."""
    if recipe.solver == "hgs":
        from tasks.solvers.hgs import HGS

        return HGS(recipe.time_limit, recipe.iterations, recipe.fleet, recipe.population)
    if recipe.solver == "pyvrp":
        from tasks.solvers.pyvrp import PyVRP

        return PyVRP(recipe.time_limit, recipe.iterations)
    from tasks.solvers.lkh3 import LKH3

    return LKH3(recipe.iterations)


def solver_seed(seed: int, n: int, i: int) -> int:
    """Return the solver's seed for instance (n, i): a function of these numbers alone."""
    return philox_key("solver", str(seed), str(n), str(i)) % 2**_SEED_BITS


def label_rows(store: Store, city: City, recipe: Recipe, n: int, start: int, stop: int) -> Receipt:
    """Label rows ``start`` to ``stop`` (excluded) of size ``n`` and stage them as one file.

    When an instance has no answer, the rows before it are staged all the same.

    Raises
    ------
    McvrpError
        Naming the instance that no seed solved.
    """
    began = time.perf_counter()
    solver = make_solver(recipe)
    stream = InstanceStream(city, recipe.seed, recipe.split, recipe.rules)
    labels: list[Label] = []
    failure: McvrpError | None = None
    for i in range(start, stop):
        try:
            labels.append(_label(solver, city, stream, recipe, n, i))
        except McvrpError as error:
            failure = error
            break
    path = layout.staged_chunk(recipe.dataset, n, start, start + len(labels))
    if labels:
        write_labels(store, path, city, recipe.spec_hash, labels)
    if failure:
        raise failure
    solving = sum(label.runtime for label in labels)
    return Receipt(path, len(labels), time.perf_counter() - began, solving)


def _label(solver: Solver, city: City, stream: InstanceStream, recipe: Recipe, n: int, i: int) -> Label:
    instance = stream(n, i)
    reason: str | None = None
    for attempt in range(_ATTEMPTS):
        seed = solver_seed(recipe.seed, n, i) + attempt
        answer = next(iter(solver.solve(city, [instance], samples=1, seed=seed)))
        reason = answer.failure
        if answer.solution is not None:  # feasible: `best_of` has checked, `write_table` will again
            return Label(
                index=i,
                instance=instance,
                solution=answer.solution,
                cost=cost(city, answer.solution),
                source=SOLVED,
                solver=solver.label,
                version=solver.version,
                seed=seed,
                budget=recipe.budget,
                runtime=answer.seconds,
            )
    raise McvrpError(
        f"{solver.label} has no answer to instance (n={n}, i={i}) from {_ATTEMPTS} seeds: {reason}"
    )


def merge_shard(
    store: Store,
    city: City,
    recipe: Recipe,
    n: int,
    k: int,
    start: int,
    stop: int,
    sources: Sequence[LabelFile],
) -> Receipt:
    """Publish shard ``k`` of size ``n`` with rows ``start`` to ``stop`` out of ``sources``.

    The sources are staged files and the smaller shard that is there; they may overlap. Staged ones
    are removed once the shard is there.
    """
    began = time.perf_counter()
    path = layout.label_shard(recipe.dataset, n, k)
    if store.exists(path):  # perhaps by this very task, whose worker died before it could say so
        there = read_footer(store, path)
        if there.row_start == start and there.row_stop >= stop:
            _remove(store, sources, path)
            return Receipt(path, stop - start, time.perf_counter() - began, 0.0)
    pieces: list[pa.Table] = []
    reached = start
    for source in sorted(sources, key=lambda source: (source.footer.row_start, -source.footer.row_stop)):
        last = min(source.footer.row_stop, stop)
        if source.footer.row_start <= reached < last:
            skip = reached - source.footer.row_start
            pieces.append(read_table(store, source.path).slice(skip, last - reached))
            reached = last
    if reached < stop:
        raise McvrpError(
            f"rows {reached} to {stop} of n={n} went missing before {path} was merged: run again"
        )
    write_table(store, path, city, recipe.spec_hash, n, pa.concat_tables(pieces))
    _remove(store, sources, path)
    return Receipt(path, stop - start, time.perf_counter() - began, 0.0)


def _remove(store: Store, sources: Sequence[LabelFile], shard: str) -> None:
    for source in sources:
        if source.path != shard:
            store.delete(source.path)
