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

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility, require_instances
from mcvrp.tasks.solvers.registry import SolverEntry
from mcvrp.tasks.solvers.solver import Answer, Search, SolverFailed

Routes = tuple[tuple[int, ...], ...]  # of a solution, the depot left out


@dataclass(frozen=True)
class Start:
    """The samples of one instance, in the city's node numbers, and the seconds that decoding them took."""

    routes: tuple[Routes, ...]
    seconds: float

    def __post_init__(self) -> None:
        if not self.routes:
            raise McvrpError("a warm start needs at least one sample: give one")


@dataclass(frozen=True)
class WarmStarted:
    """A search that is given samples of the instances, and what their decoding left of the time.

    Parameters
    ----------
    finisher
        Who searches, from as many of the best samples (each solution once) as it takes: they join the
        population of HGS, PyVRP starts from the best.
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

    finisher: SolverEntry
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
        return f"{self.sampler} + {self.finisher.label} (equal time)"

    @property
    def configuration(self) -> str:
        """Model, number of samples, total time and the search in one line."""
        model = f"model {self.version}, " if self.version else ""
        counts = sorted({len(start.routes) for start in self.starts})
        samples = "-".join(map(str, counts[:1] + counts[1:][-1:])) or "no"
        used = f"the best {self.finisher.starts}" if self.finisher.starts > 1 else "the best"
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
            or the finisher does not take the city's costs.
        """
        if len(instances) != len(self.starts):
            raise McvrpError(
                f"{len(self.starts)} warm starts for {len(instances)} instances: give one for each"
            )
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
            with contextlib.suppress(SolverFailed):  # then the best sample stands
                found = self._search(left).search(city, instance, seed, starts)
                if infeasibility(instance, found) is None:
                    best = min(best, canonical(city, found), key=lambda solution: cost(city, solution))
        seconds = start.seconds + time.perf_counter() - began
        return Answer(best, np.array([cost(city, best)]), seconds)

    def _search(self, seconds: float) -> Search:
        return self.finisher.search(time_limit=seconds, population=self.population)


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
        raise McvrpError(f"a warm start has no sample of its instance ({reason}): leave it out")
    return list(chosen)
