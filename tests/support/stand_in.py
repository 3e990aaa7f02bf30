"""Solver that takes its time limit asleep, or no time at all, then returns the routes of a sweep."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solvers import Answer, SolverEntry, best_of, register
from tests.support.labels import sweep


@dataclass(frozen=True)
class Instant:
    """Solver that is planned with its time limit, as one of several seconds, and takes none."""

    time_limit: float
    label, version, device, configuration = "Instant", "instant 1", "none", "none"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        return sweep(city, instance)


@dataclass(frozen=True)
class Asleep(Instant):
    """Solver that takes its time limit."""

    label, version, device, configuration = "Sleep", "sleep 1", "none", "sleeps"

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        time.sleep(self.time_limit)
        return sweep(city, instance)


INSTANT, ASLEEP = "instant", "asleep"
register(INSTANT, SolverEntry("Instant", f"{__name__}:Instant", takes=("time_limit",), text="a sweep"))
register(ASLEEP, SolverEntry("Sleep", f"{__name__}:Asleep", takes=("time_limit",), text="a pause"))
