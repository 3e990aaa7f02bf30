"""Searches that start from the samples of a model instead of random solutions, within a total time.

Equal time means: the seconds of decoding, one instance at a time (processor time on one core, or wall-clock
on a GPU), and the processor time of the search's thread are together no more than the total. A search
alone with the total as its time limit is what to compare with. Knows routes, not the network that they
come from.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility, require_instances
from mcvrp.tasks.solvers.hgs import HGS, require_symmetric
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Answer, SolverFailed

Routes = tuple[tuple[int, ...], ...]  # of a solution, the depot left out
Finisher = Literal["hgs", "pyvrp"]
# In short searches better than the best sample alone, and than all of 64 (BENCHMARKS.md).
HGS_STARTS = 8


@dataclass(frozen=True)
class Start:
    """The samples of one instance, in the city's node numbers, and the seconds that decoding them took."""

    routes: tuple[Routes, ...]
    seconds: float

    def __post_init__(self) -> None:
        if not self.routes:
            raise McvrpError("a warm start needs at least one sample")


@dataclass(frozen=True)
class WarmStarted:
    """A search that is given samples of the instances, and what their decoding left of the time.

    Parameters
    ----------
    finisher
        Who searches: HGS, whose population the best of the samples join (each solution once), or
        PyVRP, which starts from the best sample.
    total
        Seconds of an instance, decoding included.
    starts
        The samples of each instance that will be asked for, in their order.
    version
        Of the model that the samples come from.
    device
        What both ran on.
    sampler
        Name of the model with its decoder, as in tables.
    population
        HGS's smallest population, None for its own.

    Raises
    ------
    McvrpError
        If the total is not a positive number of seconds.
    """

    finisher: Finisher
    total: float
    starts: tuple[Start, ...]
    version: str = ""
    device: str = "1 CPU core"
    sampler: str = "FM-MCVRP (NS)"
    population: int | None = None

    def __post_init__(self) -> None:
        self._search(self.total)

    @property
    def label(self) -> str:
        """Name in the tables."""
        return f"{self.sampler} + {self._search(self.total).label} (equal time)"

    @property
    def configuration(self) -> str:
        """Model, number of samples, total time and the search in one line."""
        model = f"model {self.version}, " if self.version else ""
        counts = sorted({len(start.routes) for start in self.starts})
        samples = "-".join(map(str, counts[:1] + counts[1:][-1:])) or "no"
        used = f"the best {HGS_STARTS}" if self.finisher == "hgs" else "the best"
        search = self._search(self.total)
        return (
            f"{model}{samples} samples decoded one instance at a time, {used} a start for "
            f"{search.version} with what is left of {self.total:g} s; {search.configuration}"
        )

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer an instance, no worse than its best sample; of one cost, whatever ``samples``.

        The starts have as many samples as they have. Where decoding took all the time, the best of them is
        the answer.

        Raises
        ------
        McvrpError
            If there is not one start an instance, a start has no sample that serves its instance,
            or HGS is given asymmetric costs.
        """
        if len(instances) != len(self.starts):
            raise McvrpError(f"{len(self.starts)} warm starts for {len(instances)} instances: one for each")
        require_instances(city, instances)
        if self.finisher == "hgs":
            require_symmetric(city)
        for instance, start in zip(instances, self.starts, strict=True):
            yield self._finish(city, instance, start, seed)

    def _finish(self, city: City, instance: Instance, start: Start, seed: int) -> Answer:
        began, processor = time.perf_counter(), time.thread_time()
        starts = _cheapest(city, instance, start, HGS_STARTS if self.finisher == "hgs" else 1)
        best = starts[0]
        left = self.total - start.seconds - (time.thread_time() - processor)
        if left > 0:
            with contextlib.suppress(SolverFailed):  # then the best sample stands
                found = _continue(self._search(left), city, instance, seed, starts)
                if infeasibility(instance, found) is None:
                    best = min(best, canonical(city, found), key=lambda solution: cost(city, solution))
        seconds = start.seconds + time.perf_counter() - began
        return Answer(best, np.array([cost(city, best)]), seconds)

    def _search(self, seconds: float) -> HGS | PyVRP:
        if self.finisher == "hgs":
            return HGS(time_limit=seconds, population=self.population)
        return PyVRP(time_limit=seconds)


def _continue(
    search: HGS | PyVRP, city: City, instance: Instance, seed: int, starts: Sequence[Solution]
) -> Solution:
    if isinstance(search, HGS):
        return search.search(city, instance, seed, starts)
    return search.search(city, instance, seed, starts[0])


def _cheapest(city: City, instance: Instance, start: Start, most: int) -> list[Solution]:
    """Return the cheapest samples that serve the instance, canonical, each once, the cheapest first."""
    samples = sorted(map(Solution, start.routes), key=lambda solution: cost(city, solution))
    chosen: dict[Solution, None] = {}
    reason: str | None = None
    for sample in samples:
        reason = infeasibility(instance, sample)
        if reason is None:
            chosen.setdefault(canonical(city, sample))
        if len(chosen) == most:
            break
    if not chosen:
        raise McvrpError(f"a warm start has no sample of its instance: {reason}")
    return list(chosen)
