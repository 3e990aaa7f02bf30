"""Search of a large day by decomposition: all cores improve parts of it, with other cuts each round.

An iteration of HGS for 1,000 customers takes as long as some sixty for 200 (`tasks.solvers.budgets`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.tasks.solve.member import Found, SearchMember
from mcvrp.tasks.solvers.solver import SolverFailed
from mcvrp.tasks.support.pool import Pool

DECOMPOSITION = "HGS with decomposition"
_LARGE, _SECONDS = 500, 6e-5  # customers at least; seconds per squared customer at most (BENCHMARKS.md)
_PART, _ROUTES = 200, 4  # of a part: customers at most, and routes at least, about


@dataclass(frozen=True)
class PartsMember(SearchMember):
    """A search on ``cores``: of the whole day in the first slice, then of the parts of the best routes.

    Costs do not rise from one slice to the next. As long as no routes are within the limits, each core
    searches the whole day.
    """

    cores: int = 1
    largest_share: ClassVar[float] = 0.15  # several rounds, however short the time is

    def found(self, until: float) -> Iterator[Found]:
        """Yield improvements, slice by slice; SolverFailed if the solver ends by itself without any."""
        with Pool(self.cores, worth=0.0) as pool:
            yield from self.improvements(until, partial(self._round, pool))

    def _round(self, pool: Pool, options: dict[str, Any], k: int, starts: Sequence[Solution]) -> Solution:
        count = self.cores * math.ceil(self.instance.n / (self.cores * _PART))
        count = min(count, len(starts[0].routes) // _ROUTES) if starts else 0
        if k == 0 or count < 2 or self.limits.broken(self.city, starts[0]):
            found = pool.map(_whole, (self,), [(options, k, starts, core) for core in range(self.cores)])
            solutions = [each for each in found if isinstance(each, Solution)]
            if not solutions:
                raise SolverFailed(str(found[0]))
            return min(solutions, key=self.rank)
        parts = cut(self.city, starts[0], count, np.random.default_rng([self.seed, k]))
        seconds = options["time_limit"] / math.ceil(len(parts) / self.cores)
        options = options | {"time_limit": seconds}
        if self.limits.fleet is not None:  # vehicles beside those of a part
            options["fleet"] = (self.limits.fleet - len(starts[0].routes)) // len(parts)
        improved = pool.map(_improved, (self,), [(part, options, k) for part in parts])
        return Solution.of(route for part in improved for route in part.routes).in_order


def in_parts(solver: str, n: int, seconds: float) -> bool:
    """Return whether days of ``n`` customers are searched in parts: where it was measured to be better."""
    return solver == "hgs" and n >= _LARGE and seconds <= _SECONDS * n**2


def cut(city: City, solution: Solution, count: int, rng: np.random.Generator) -> list[Solution]:
    """Return ``solution`` in at most ``count`` parts: neighbouring routes, with about equally many customers.

    Routes are halved by their middles along a random direction, then each half again.
    """
    routes = solution.routes
    if count == 1 or len(routes) < 2:
        return [solution]
    turn = rng.uniform(0, 2 * math.pi)
    middles = np.array([city.xy[list(route)].mean(axis=0) for route in routes])
    order = np.argsort(middles @ [math.cos(turn), math.sin(turn)], kind="stable")
    served, low = np.cumsum([len(routes[k]) for k in order]), count // 2
    at = min(int(np.abs(served - served[-1] * low / count).argmin()) + 1, len(routes) - 1)
    return [
        part
        for chosen, share in ((order[:at], low), (order[at:], count - low))
        for part in cut(city, Solution(tuple(routes[k] for k in chosen)), share, rng)
    ]


def _whole(context: tuple[PartsMember], task: tuple[Any, ...]) -> Solution | SolverFailed:
    """Return routes of the whole day, as one core searches them."""
    (member,), (options, k, starts, core) = context, task
    try:
        return replace(member, seed=member.seed + core).solve_slice(options, k, starts)
    except SolverFailed as error:
        return error


def _improved(context: tuple[PartsMember], task: tuple[Any, ...]) -> Solution:
    """Return cheaper routes of the customers of a part, or the part; "fleet": how many more."""
    (member,), (part, options, k) = context, task
    day, here = member.instance, np.isin(member.instance.ids, [node for r in part.routes for node in r])
    day = Instance(day.city_id, day.ids[here], day.demands[here], day.capacity)
    if "fleet" in options:
        options = options | {"fleet": options["fleet"] + len(part.routes)}
    try:
        solution: Solution = member.solve_slice(options, k, [part], day)
    except SolverFailed:
        return part
    return min(part, solution, key=partial(cost, member.city))
