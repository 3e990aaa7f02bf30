"""Work of one benchmark worker: solve some held-out instances and store the answers.

Imports neither Ray, Prefect nor torch, so that a worker starts fast.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, infeasibility
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import PartRow, write_part
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.solver import Answer, Solver, SolverFailed
from mcvrp.tasks.support.machine import hardware


@dataclass(frozen=True)
class Part:
    """Instances ``start`` to ``stop`` (excluded) of size ``n`` for one method.

    ``block`` names the method with its settings, ``label`` the method in tables, ``samples`` the numbers of
    samples to report, ascending. With ``together``, the solver gets all instances as one batch, once per
    number of samples. Otherwise it gets one instance at a time and is timed after each number of samples.
    """

    run: str
    block: str
    label: str
    n: int
    start: int
    stop: int
    samples: tuple[int, ...]
    seed: int
    rules: Rules
    together: bool = False
    time_limit: float | None = None  # of the solver, in seconds per run

    @property
    def path(self) -> str:
        return layout.benchmark_part(self.run, self.block, self.n, self.start, self.stop)

    @property
    def rows(self) -> int:
        """Number of instances."""
        return self.stop - self.start

    def instances(self, city: City) -> list[Instance]:
        """Return the held-out instances of the part."""
        stream = InstanceStream(city, self.seed, "test", self.rules)
        return [stream(self.n, i) for i in range(self.start, self.stop)]


@dataclass(frozen=True, eq=False)
class Task:
    """Part and its solver."""

    part: Part
    solver: Solver


@dataclass(frozen=True)
class WorkerContext:
    """Shared settings of all workers: store, city and number of parts solved in parallel."""

    store: Store
    city: City
    workers: int


def solve_part(task: Task, context: WorkerContext) -> int:
    """Solve the instances of a part, store the answers and return the number of instances.

    An instance on which the solver fails is stored with the reason. Raises McvrpError if the solver does not
    support such instances.
    """
    part, solver = task.part, task.solver
    instances = part.instances(context.city)
    timed = _together if part.together else _one_by_one
    answers = timed(context.city, instances, part, solver)
    rows = [
        _row(task, part.start + k, instance, answer, context.workers)
        for k, (instance, answer) in enumerate(zip(instances, answers, strict=True))
    ]
    write_part(context.store, part.path, rows)
    return part.rows


Timed = tuple[Answer, tuple[float, ...]]  # answer, and seconds at each number of samples


def _one_by_one(city: City, instances: Sequence[Instance], part: Part, solver: Solver) -> Iterator[Timed]:
    runs = part.samples[-1]
    for instance in instances:
        try:
            (answer,) = solver.solve(city, [instance], samples=runs, seed=part.seed)
        except Exception as error:  # an instance that crashes a solver must not fail the whole part
            if isinstance(error, McvrpError) and not isinstance(error, SolverFailed):
                raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            if not isinstance(error, SolverFailed):
                frame = traceback.extract_tb(error.__traceback__)[-1]
                reason += f" ({Path(frame.filename).name}, line {frame.lineno})"
            yield Answer(None, np.full(runs, np.inf), 0.0, reason), (0.0,) * len(part.samples)
            continue
        elapsed = answer.elapsed
        if elapsed is None:  # the solver does not measure it: evenly
            elapsed = np.linspace(0, answer.seconds, runs + 1)[1:]
        yield answer, tuple(elapsed[count - 1] for count in part.samples)


def _together(city: City, instances: Sequence[Instance], part: Part, solver: Solver) -> Iterator[Timed]:
    answers: list[Answer] = []
    seconds: list[list[float]] = []
    for samples in part.samples:  # the largest comes last; the others are prefixes of its answers
        answers = list(solver.solve(city, instances, samples=samples, seed=part.seed))
        seconds.append([answer.seconds for answer in answers])
    return zip(answers, zip(*seconds, strict=True), strict=True)


def _row(task: Task, index: int, instance: Instance, timed: Timed, workers: int) -> PartRow:
    part, solver, (answer, seconds) = task.part, task.solver, timed
    reason = answer.failure
    if answer.solution is not None:
        reason = infeasibility(instance, answer.solution)  # independent of the solver's own check
    solved = answer.solution is not None and reason is None
    return PartRow(
        method=part.label,
        n=part.n,
        index=index,
        samples=part.samples,
        seconds=seconds,
        costs=tuple(answer.costs.tolist()) if solved else (),
        routes=answer.solution.routes if solved and answer.solution else None,
        seed=part.seed,
        device=solver.device,
        workers=workers,
        machine=hardware(),
        version=solver.version,
        configuration=solver.configuration,
        failure=None if solved else reason or "no answer",
    )
