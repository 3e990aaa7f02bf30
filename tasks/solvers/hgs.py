"""HGS-CVRP (Vidal 2022), the label solver of the paper, through hybgensea; for all kinds of costs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar, Literal

import hybgensea
import numpy as np
from numpy.typing import NDArray

from mcvrp.model.problem import COST_TOLERANCE, City, Instance, Solution, cost
from mcvrp.tasks.solvers.budgets import settings_text
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.searches import (
    SCALED,
    LimitedSearch,
    fewest_vehicles,
    in_fleet,
    packed_vehicles,
    scaled_costs,
    scaled_xy,
)
from mcvrp.tasks.solvers.solver import SolverFailed

_NO_LIMIT = 2**31 - 1  # iterations without improvement, with a time limit
# For orders that are hard to pack: minimum of iterations without improvement; iterations between two updates
# of the penalties (default 100); vehicles beyond those of a packing.
_HARD_ITERATIONS, _HARD_PRICES, _SPARE_VEHICLES = 1000, 20, 3
_LEAST_SECONDS = 1e-6  # limit of a run whose savings solutions took all its time: HGS-CVRP takes 0 as none
_EPSILON = 1e-5  # MY_EPSILON of HGS-CVRP: its tolerance of the route limit
_MOST_DISTANCE = 1e5  # HGS-CVRP refuses larger ones


def own_bound(instance: Instance) -> int:
    """Return HGS-CVRP's default number of vehicles."""
    return math.ceil(1.3 * int(instance.demands.sum()) / instance.capacity) + 3


@dataclass(frozen=True)
class HGS(LimitedSearch):
    """Hybrid genetic search.

    ``starts`` are added to the population before its random solutions. Those with more routes than HGS-CVRP's
    bound are left out; with more than a given ``fleet``, their lightest routes are appended to others.

    Parameters
    ----------
    time_limit, iterations, tuned
        As in `LimitedSearch`. A run with a time limit does not restart.
    fleet
        Maximum number of vehicles: "default" is HGS-CVRP's ceil(1.3 total demand / capacity) + 3, or more
        if the orders need more; the authors' public helper for the paper sets 10,000, which reduces
        solution quality.
    longest_route
        As in `Limits`; the default fleet is then one vehicle per customer.
    population
        Minimum population size (Vidal's mu, 25 by default). A run first improves four times as many
        random solutions: at n = 20 that is most of its time, and far fewer are sufficient.
    granular
        Number of nearest neighbours in local search (Vidal's granular search, 20 by default).
    offspring
        Number of new solutions of a generation, after which the population is reduced to its minimum size
        (Vidal's lambda, 40 by default).
    savings
        Number of savings solutions (`tasks.solvers.savings`) in the first population, after ``starts``; none
        by default. Their seconds count to the time limit.
    """

    fleet: Literal["default"] | int = "default"
    population: int | None = None
    granular: int | None = None
    offspring: int | None = None
    savings: int | None = None
    label: ClassVar[str] = "HGS"
    solver: ClassVar[str] = "hgs"
    version: ClassVar[str] = f"hybgensea {version('hybgensea')}"

    @property
    def configuration(self) -> str:
        """Budget, fleet and scale in one line."""
        settings = settings_text(self.population, self.granular, self.offspring, self.savings)
        return f"HGS-CVRP, {self.settings}{settings}, {SCALED}"

    def _solution(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution]) -> Solution:
        """Return the best solution of one run, or of a second, longer one if the first has no answer.

        A run of few iterations may end before any solution is feasible: the capacity penalty increases
        every 100 iterations, and orders of about half a vehicle need a high one. There is no second run with
        a time limit or ``starts``, and no first one if the orders provably need more vehicles than
        HGS-CVRP's bound.
        """
        if instance.n == 1:  # HGS-CVRP's crossover would search for a second customer indefinitely
            return Solution.of([instance.ids.tolist()])
        if cost(city, Solution.of([node] for node in instance.ids.tolist())) == 0:  # HGS-CVRP refuses it
            (built,) = savings(city, instance, seed, 1)
            if not self.limits.broken(city, built):
                return built
        needed = fewest_vehicles(instance)
        if self.fleet != "default":
            fleet = self.fleet
        else:
            fleet = own_bound(instance) if self.longest_route is None else instance.n
        if fleet >= needed:
            try:
                return self._run(city, instance, seed, fleet, starts, hard=False)
            except SolverFailed:
                if self.iterations is None or starts:
                    raise
        if self.fleet == "default":
            fleet = max(fleet, packed_vehicles(instance) + _SPARE_VEHICLES)
        elif fleet < needed:
            raise SolverFailed(f"{needed} vehicles are needed at least, the fleet is {fleet}")
        return self._run(city, instance, seed, fleet, starts, hard=True)

    def _run(
        self, city: City, instance: Instance, seed: int, fleet: int, starts: Sequence[Solution], *, hard: bool
    ) -> Solution:
        began = time.thread_time()
        built = savings(city, instance, seed, self.savings) if self.savings else []
        if built and self.fleet == "default":  # a start that fits is an answer, however short the time is
            fleet = max(fleet, min(len(solution.routes) for solution in built))
        options = self._options(hard) | {
            "initial_solutions": self._initial_solutions(instance, fleet, [*starts, *built]),
            "num_vehicles": fleet,
            "seed": seed % 2**31,  # an int of C
        }
        if self.longest_route is not None:
            _, factor = _costs(city, instance)
            options["duration_limit"] = max(
                self.longest_route * factor * (1 + COST_TOLERANCE) - _EPSILON, 0.0
            )
            service = self.service or {}
            options["service_times"] = [service.get(node, 0.0) * factor for node in instance.nodes.tolist()]
        demands = np.concatenate([[0.0], instance.demands.astype(np.float64)])
        x, y = np.ascontiguousarray(scaled_xy(city, instance).T)
        if self.time_limit is not None:
            options["timeLimit"] = max(self.time_limit - (time.thread_time() - began), _LEAST_SECONDS)
        try:
            if city.matrix is None:
                result = hybgensea.solve_cvrp(x, y, demands, instance.capacity, rounding=False, **options)
            else:
                costs, _ = _costs(city, instance)
                options |= {"x_coords": x, "y_coords": y}
                result = hybgensea.solve_cvrp_dist_mtx(costs, demands, instance.capacity, **options)
        except (RuntimeError, ValueError) as error:  # ValueError: the fleet is too small
            raise SolverFailed(f"HGS gave up: {error}") from error
        nodes = instance.nodes.tolist()
        return Solution.of([nodes[k] for k in route] for route in result.routes)

    def _options(self, hard: bool) -> dict[str, Any]:
        iterations = self.iterations or _NO_LIMIT
        options = {
            "initial_solutions_allow_infeasible": bool(self.limits.given),
            "extract_all_feasible": False,
            "verbose": False,
            "nbIter": max(iterations, _HARD_ITERATIONS) if hard else iterations,
            "mu": self.population,
            "nbGranular": self.granular,
            "lambda_": self.offspring,
            # seconds may pass otherwise before any solution is within a longest route
            "nbIterPenaltyManagement": _HARD_PRICES
            if hard or (self.time_limit and self.longest_route)
            else None,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _initial_solutions(
        self, instance: Instance, fleet: int, starts: Sequence[Solution]
    ) -> list[list[list[int]]]:
        """Return ``starts`` as HGS-CVRP's routes of customers 1..n, without those of too many routes."""
        solutions = [in_fleet(instance, start, self.limits.fleet).routes for start in starts]
        return [
            [np.searchsorted(instance.nodes, route).tolist() for route in routes]
            for routes in solutions
            if len(routes) <= fleet
        ]


def _costs(city: City, instance: Instance) -> tuple[NDArray[np.float64], float]:
    """Return `scaled_costs`, none over the limit of HGS-CVRP, which forbidden legs exceed."""
    costs, factor = scaled_costs(city, instance)
    smaller = min(1.0, _MOST_DISTANCE / max(float(costs.max()), 1.0))
    return costs * smaller, factor * smaller
