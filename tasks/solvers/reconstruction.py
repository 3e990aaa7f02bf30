"""Random re-construction: neighbouring routes are decoded again and replaced if the result is cheaper.

After Luo et al. (2023, "Neural combinatorial optimization with heavy decoder"). A part consists of a few
routes and is decoded as an instance by itself, so its size can be one that the model was trained on, however
large the whole instance is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.model.random import philox_key, philox_order
from mcvrp.tasks.solvers.solver import Answer, Improved

_LEAST_GAIN = 1e-9  # relative to a part's cost: smaller gains are rounding


@dataclass(frozen=True, eq=False)
class Reconstructed(Improved):
    """FM-MCVRP with random re-construction of its best sample.

    A round decodes disjoint parts of all instances together.
    """

    rounds: int = 20
    part_customers: int = 20  # at least, in a part: a size that the model was trained on
    part_samples: int = 16  # per part
    step: ClassVar[str] = "re-construction"

    @property
    def configuration(self) -> str:
        """First samples and rounds in one line."""
        return (
            f"{self.solver.configuration}, then {self.rounds} rounds that decode neighbouring routes of at "
            f"least {self.part_customers} customers again, {self.part_samples} samples each"
        )

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance, at most as expensive as the best of ``samples``, with one cost.

        Its seconds are its share of the total time.
        """
        if not instances:
            return
        start = time.perf_counter()
        table = self.solver.model.table(city)
        decoded = self.solver.decoded(city, instances, samples, seed, table)
        states = [canonical(city, drawn.best) for drawn in decoded]
        for count in range(1, self.rounds + 1):
            parts = [
                (k, part)
                for k, (instance, state) in enumerate(zip(instances, states, strict=True))
                for part in parts_of(city, state, self.part_customers, _order(instance, seed, count))
            ]
            part_instances = [_part_instance(instances[k], part) for k, part in parts]
            # another seed per round, so that an equal part gets new samples and rotations
            answers = self.solver.decoded(city, part_instances, self.part_samples, seed + count, table)
            for (k, part), answer in zip(parts, answers, strict=True):
                if answer.costs.min() < cost(city, part) * (1 - _LEAST_GAIN):
                    kept = [route for route in states[k].routes if route not in part.routes]
                    states[k] = canonical(city, Solution((*kept, *answer.best.routes)))
        seconds = (time.perf_counter() - start) / len(instances)
        for instance, state in zip(instances, states, strict=True):
            reason = infeasibility(instance, state)  # feasible by construction, and checked again
            yield Answer(None if reason else state, np.array([cost(city, state)]), seconds, reason)


def parts_of(city: City, solution: Solution, least: int, order: Sequence[int]) -> list[Solution]:
    """Return parts of ``solution`` that share no route, each of at least ``least`` customers.

    For each customer in ``order`` whose route is free, a part consists of that route and its nearest free
    routes, at least two if there are, until it has enough customers. A remainder of too few customers is in
    no part, unless it is the whole solution.
    """
    routes = solution.routes
    centres = np.array([city.xy[list(route)].mean(axis=0) for route in routes])
    delta = centres[:, None] - centres
    distance = np.hypot(delta[..., 0], delta[..., 1])
    np.fill_diagonal(distance, -1.0)  # a route is the nearest to itself
    nearest: list[list[int]] = distance.argsort(axis=1, kind="stable").tolist()
    route_of = {customer: k for k, route in enumerate(routes) for customer in route}
    free = dict.fromkeys(range(len(routes)), True)
    parts: list[Solution] = []
    for first in (route_of[customer] for customer in order):
        left = sum(len(route) for k, route in enumerate(routes) if free[k])
        if not free[first] or (parts and left < least):
            continue
        part: list[int] = []
        for k in nearest[first]:
            if free[k] and (len(part) < 2 or sum(len(routes[j]) for j in part) < least):
                part.append(k)
                free[k] = False
        parts.append(Solution(tuple(routes[k] for k in sorted(part))))
    return parts


def _order(instance: Instance, seed: int, count: int) -> list[int]:
    """Return the instance's customers in the random order of round ``count``."""
    names = [str(seed), instance.city_id, *map(str, instance.ids), *map(str, instance.demands)]
    key = philox_key("re-construction", *names, str(instance.capacity))
    return instance.ids[philox_order(key, (count, 0), instance.n)].tolist()


def _part_instance(instance: Instance, part: Solution) -> Instance:
    ids = np.array(sorted(customer for route in part.routes for customer in route))
    demands = instance.demands[np.searchsorted(instance.ids, ids)]
    return Instance(instance.city_id, ids, demands, instance.capacity)
