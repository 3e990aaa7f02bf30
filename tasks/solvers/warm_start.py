"""Warm-started searches: from the samples of a model instead of random solutions, within a total time.

Equal time means that the seconds of decoding, one instance at a time (processor time of one core, or
wall-clock time on a GPU), plus the processor time of the search's thread are at most the total. The baseline
is a search with the total as its time limit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility, require_instances
from mcvrp.tasks.solvers.registry import SolverEntry
from mcvrp.tasks.solvers.solver import Answer, Search, SolverFailed

Routes = tuple[tuple[int, ...], ...]  # of a solution, the depot left out


@dataclass(frozen=True)
class Start:
    """The samples of one instance, in the city's node numbers, and the seconds of decoding."""

    routes: tuple[Routes, ...]
    seconds: float


@dataclass(frozen=True)
class WarmStarted:
    """A search with samples of the instances as starts and the remaining time.

    The finisher takes as many of the best distinct samples as it supports: HGS adds them to its population,
    PyVRP starts from the best. Its settings are those for the size and the remaining time. Raises McvrpError
    if the total is not a positive number of seconds.
    """

    finisher: SolverEntry
    total: float  # seconds per instance, decoding included
    starts: tuple[Start, ...]  # in the order of the instances
    version: str = ""  # name and version of the model
    device: str = "1 CPU core"  # of decoding and search

    def __post_init__(self) -> None:
        self._search(self.total)

    def _search(self, seconds: float) -> Search:
        return self.finisher.search(time_limit=seconds, tuned=True)

    @property
    def label(self) -> str:
        return f"FM-MCVRP (NS) + {self.finisher.label} (equal time)"

    @property
    def configuration(self) -> str:
        """Model, number of samples, total time and the search in one line."""
        model = f"model {self.version}, " if self.version else ""
        samples = len(self.starts[0].routes)
        used = f"the best {self.finisher.starts}" if self.finisher.starts > 1 else "the best"
        search = self._search(self.total)
        return (
            f"{model}{samples} samples decoded one instance at a time, {used} a start for "
            f"{search.version} with what is left of {self.total:g} s; {search.configuration}"
        )

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance, at most as expensive as its best sample, with one cost.

        ``samples`` is ignored, as the starts are given. If decoding took all the time, the best sample is the
        answer.

        Raises McvrpError if a start has no feasible sample, or the finisher does not support the costs.
        """
        require_instances(city, instances)
        self.finisher.require_costs(city)
        for instance, start in zip(instances, self.starts, strict=True):
            yield self._finish(city, instance, start, seed)

    def _finish(self, city: City, instance: Instance, start: Start, seed: int) -> Answer:
        began, processor = time.perf_counter(), time.thread_time()
        starts = _cheapest(city, instance, start, self.finisher.starts)
        best = starts[0]
        left = self.total - start.seconds - (time.thread_time() - processor)
        if left > 0:
            with contextlib.suppress(SolverFailed):  # the best sample remains
                result = self._search(left).search(city, instance, seed, starts)
                if infeasibility(instance, result) is None:
                    best = min(best, canonical(city, result), key=lambda solution: cost(city, solution))
        seconds = start.seconds + time.perf_counter() - began
        return Answer(best, np.array([cost(city, best)]), seconds)


def _cheapest(city: City, instance: Instance, start: Start, most: int) -> list[Solution]:
    """Return the cheapest feasible samples, canonical and distinct, in ascending order of cost."""
    chosen: dict[Solution, None] = {}
    reason: str | None = None
    for sample in sorted(map(Solution, start.routes), key=lambda solution: cost(city, solution)):
        reason = infeasibility(instance, sample)
        if reason is None:
            chosen.setdefault(canonical(city, sample))
        if len(chosen) == most:
            break
    if not chosen:
        raise McvrpError(f"a warm start has no sample of its instance ({reason}): leave it out")
    return list(chosen)
