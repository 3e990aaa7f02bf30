"""Base of HGS and PyVRP: budget and limits of a search, bounds of the number of vehicles, scaled costs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import no_road
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solvers.budgets import TUNED, checked_budget, tuned_budget
from mcvrp.tasks.solvers.solver import ONE_CORE, Answer, Limits, SolverFailed, best_of

# side of the city's square for solvers, large enough for integer rounding and penalty floors
COORDINATE_SCALE = 1e4
SCALED = f"city scaled to a side of {COORDINATE_SCALE:,.0f}"  # for footnotes
_MOST_EXACT = 1e5
_FORBIDDEN = 100.0  # cost of a leg without a road, as a multiple of the dearest other one
_TO_A_VEHICLE = 3  # counts orders of more than 1/4 of a vehicle; for smaller ones HGS's bound is sufficient


@dataclass(frozen=True)
class LimitedSearch(ABC):
    """Search with a budget, a time limit or iterations, and limits of the routes."""

    time_limit: float | None = None  # seconds of processor time per run
    iterations: int | None = None  # without improvement, then a run ends; deterministic for a seed
    fleet: Literal["default"] | int | None = None  # like the longest route, as in `Limits`
    longest_route: float | None = None
    service: Mapping[int, float] | None = None
    tuned: bool = False  # settings of `tasks.solvers.budgets` for the size and the time limit, not its own
    label: ClassVar[str]
    solver: ClassVar[str]  # registered name
    device: ClassVar[str] = ONE_CORE

    def __post_init__(self) -> None:
        checked_budget(self.time_limit, self.iterations)
        if self.tuned and self.time_limit is None:
            raise McvrpError("tuned settings are those of a time limit: give one instead of iterations")
        if isinstance(self.fleet, int) and self.fleet < 1:
            raise McvrpError(f"a fleet needs at least one vehicle, not {self.fleet}")

    @property
    def settings(self) -> str:
        """Budget and limits in one line."""
        budget = checked_budget(self.time_limit, self.iterations)
        without = " without improvement" if self.iterations is not None else ""
        service = " with service" if self.service else ""
        longest = "" if self.longest_route is None else f", routes up to {self.longest_route:,.10g}{service}"
        tuned = f", {TUNED}" if self.tuned else ""
        return f"{budget}{without}{tuned}, fleet {self.fleet or 'n'}{longest}"

    @property
    def limits(self) -> Limits:
        """Limits of its routes beside the capacity."""
        return Limits(None if self.fleet == "default" else self.fleet, self.longest_route, self.service)

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance."""
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, started from ``starts`` if any, which may violate the limits.

        Raises SolverFailed if the run ends without an answer, or violates a limit.
        """
        solution = self.for_size(instance.n)._solution(city, instance, seed, starts)
        if broken := self.limits.broken(city, solution):
            raise SolverFailed(f"{self.label} found {broken}")
        return solution

    def for_size(self, n: int) -> Self:
        """Return the search with the settings for ``n`` customers, if it is tuned."""
        if not self.tuned or self.time_limit is None:
            return self
        return replace(self, tuned=False, **tuned_budget(self.solver, n, self.time_limit).options())

    @abstractmethod
    def _solution(
        self, city: City, instance: Instance, seed: int, starts: Sequence[Solution]
    ) -> Solution: ...


def in_fleet(instance: Instance, solution: Solution, fleet: int | None) -> Solution:
    """Return ``solution`` in at most ``fleet`` routes: the lightest are appended to others."""
    if fleet is None or len(solution.routes) <= fleet:
        return solution
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = sorted(map(list, solution.routes), key=lambda route: -sum(demand[node] for node in route))
    for k, route in enumerate(routes[fleet:], start=1):
        routes[-k % fleet] += route  # the lightest first
    return Solution.of(routes[:fleet])


def fewest_vehicles(instance: Instance) -> int:
    """Return a lower bound of the number of vehicles."""
    return vehicles_needed(instance.demands.astype(np.float64), instance.capacity)


def vehicles_needed(sizes: NDArray[np.float64], room: float) -> int:
    """Return a lower bound of the number of vehicles with ``room`` for all ``sizes``.

    At most k sizes that are each larger than 1 / (k + 1) of a vehicle fit into one.
    """
    if not room:
        return int((sizes > 0).sum())
    large = [(k, int((sizes * (k + 1) > room).sum())) for k in range(1, _TO_A_VEHICLE + 1)]
    return max(math.ceil(float(sizes.sum()) / room), *(-(-many // k) for k, many in large))


def packed_vehicles(instance: Instance) -> int:
    """Return the number of vehicles of a first-fit decreasing packing."""
    room: list[int] = []
    for demand in sorted(instance.demands.tolist(), reverse=True):
        vehicle = next((v for v, free in enumerate(room) if free >= demand), len(room))
        if vehicle == len(room):
            room.append(instance.capacity)
        room[vehicle] -= demand
    return len(room)


def scaled_xy(city: City, instance: Instance) -> NDArray[np.float64]:
    """Return the coordinates of the instance's nodes in a city of side 1e4, ``(n + 1, 2)``."""
    return (city.xy[instance.nodes] - np.asarray(city.origin)) * (COORDINATE_SCALE / city.scale)


def scaled_costs(city: City, instance: Instance) -> tuple[NDArray[np.float64], float]:
    """Return the scaled travel costs between the instance's nodes, ``(n + 1, n + 1)``, and their factor.

    Straight lines are scaled to a city of side 1e4, a matrix to a largest entry of 1e4, besides those that
    represent "no road" (`no_road`), which become a hundred times that. The factor of a
    matrix of integers up to 1e5 is an integer, so that solvers that round are exact; larger costs make PyVRP
    miss feasible routes.
    """
    costs = city.costs(instance.nodes)
    np.fill_diagonal(costs, 0)  # PyVRP requires 0, HGS-CVRP would add it for each empty route
    if city.matrix is None:
        factor = COORDINATE_SCALE / city.scale
    else:
        forbidden = costs >= no_road(costs)
        largest = float(costs[~forbidden].max())
        factor = COORDINATE_SCALE / largest if largest > 0 else 1.0
        if largest <= _MOST_EXACT and np.array_equal(costs, np.rint(costs)):
            factor = max(1.0, np.floor(factor))
        costs = np.where(forbidden, _FORBIDDEN * largest, costs)
    return costs * factor, factor
