"""HGS-CVRP (Vidal 2022), the label solver of the paper, through hybgensea."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

import hybgensea
import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, City, Instance, Solution
from mcvrp.tasks.solvers.packing import fewest_vehicles, packed_vehicles
from mcvrp.tasks.solvers.solver import (
    SCALED,
    Answer,
    Limits,
    SolverFailed,
    best_of,
    checked_budget,
    cost_factor,
    in_fleet,
    require_costs,
    scaled_costs,
    scaled_xy,
)

_NO_LIMIT = 2**31 - 1  # iterations without improvement, with a time limit
# For orders that are hard to pack: minimum of iterations without improvement; iterations between two updates
# of the penalties (default 100); vehicles beyond those of a packing.
_HARD_ITERATIONS, _HARD_PRICES, _SPARE_VEHICLES = 1000, 20, 3
_EPSILON = 1e-5  # MY_EPSILON of HGS-CVRP: its tolerance of the route limit


def own_bound(instance: Instance) -> int:
    """Return HGS-CVRP's default number of vehicles."""
    return math.ceil(1.3 * int(instance.demands.sum()) / instance.capacity) + 3


@dataclass(frozen=True)
class HGS:
    """Hybrid genetic search.

    Parameters
    ----------
    time_limit
        Seconds of processor time per run, without a restart.
    iterations
        Iterations without improvement after which a run ends; deterministic for a seed.
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
    """

    time_limit: float | None = None
    iterations: int | None = None
    fleet: Literal["default"] | int = "default"
    longest_route: float | None = None
    population: int | None = None
    granular: int | None = None
    label: str = field(default="HGS", init=False)
    device: str = field(default="1 CPU core", init=False)
    version: str = field(default=f"hybgensea {version('hybgensea')}", init=False)

    def __post_init__(self) -> None:
        checked_budget(self.time_limit, self.iterations)
        if self.fleet != "default" and self.fleet < 1:
            raise McvrpError(f"a fleet needs at least one vehicle, not {self.fleet}")

    @property
    def configuration(self) -> str:
        """Budget, fleet and scale in one line."""
        budget = checked_budget(self.time_limit, self.iterations)
        without = " without improvement" if self.iterations is not None else ""
        longest = "" if self.longest_route is None else f", routes up to {self.longest_route:,.10g}"
        return f"HGS-CVRP, {budget}{without}, fleet {self.fleet}{longest}{self._settings()}, {SCALED}"

    @property
    def limits(self) -> Limits:
        """Limits of its routes beside the capacity."""
        return Limits(None if self.fleet == "default" else self.fleet, self.longest_route)

    def _settings(self) -> str:
        return "".join(
            f", {name} {value}"
            for name, value in (("population", self.population), ("neighbours", self.granular))
            if value is not None
        )

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance; McvrpError for a city with asymmetric costs."""
        require_costs(self.label, "symmetric", city)
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, or of a second, longer one if the first has no answer.

        A run of few iterations may end before any solution is feasible: the capacity penalty increases
        every 100 iterations, and orders of about half a vehicle need a high one. There is no second run with
        a time limit or ``starts``, and no first one if the orders provably need more vehicles than
        HGS-CVRP's bound.

        Parameters
        ----------
        city, instance, seed
            The instance and the random seed.
        starts
            Solutions that are added to the population before its random ones. They may violate the limits.
            Those with more routes than HGS-CVRP's bound are left out; with more than a given ``fleet``, their
            lightest routes are appended to others.

        Raises
        ------
        SolverFailed
            If the run ends without an answer, or violates a limit.
        """
        solution = self._solution(city, instance, seed, starts)
        if broken := self.limits.broken(city, solution):
            raise SolverFailed(f"HGS found {broken}")
        return solution

    def _solution(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution]) -> Solution:
        if instance.n == 1:  # HGS-CVRP's crossover would search for a second customer indefinitely
            return Solution.of([instance.ids.tolist()])
        needed, fleet = fewest_vehicles(instance), self._fleet(instance)
        if fleet >= needed:
            try:
                return self._run(city, instance, seed, fleet, starts)
            except SolverFailed:
                if self.iterations is None or starts:
                    raise
        if self.fleet == "default":
            fleet = max(fleet, packed_vehicles(instance) + _SPARE_VEHICLES)
        elif fleet < needed:
            raise SolverFailed(f"{needed} vehicles are needed at least, the fleet is {fleet}")
        return self._run(city, instance, seed, fleet, starts, hard=True)

    def _fleet(self, instance: Instance) -> int:
        if self.fleet != "default":
            return self.fleet
        return own_bound(instance) if self.longest_route is None else instance.n

    def _run(
        self,
        city: City,
        instance: Instance,
        seed: int,
        fleet: int,
        starts: Sequence[Solution],
        *,
        hard: bool = False,
    ) -> Solution:
        options = self._options(hard) | {
            "initial_solutions": self._initial_solutions(instance, fleet, starts),
            "duration_limit": self._duration_limit(city, instance),
            "num_vehicles": fleet,
            "seed": seed,
        }
        demands = np.concatenate([[0.0], instance.demands.astype(np.float64)])
        x, y = np.ascontiguousarray(scaled_xy(city, instance).T)
        try:
            if city.matrix is None:
                result = hybgensea.solve_cvrp(x, y, demands, instance.capacity, rounding=False, **options)
            else:
                result = hybgensea.solve_cvrp_dist_mtx(
                    scaled_costs(city, instance),
                    demands,
                    instance.capacity,
                    x_coords=x,
                    y_coords=y,
                    **options,
                )
        except (RuntimeError, ValueError) as error:  # ValueError: the fleet is too small
            raise SolverFailed(f"HGS gave up: {error}") from error
        nodes = instance.nodes.tolist()
        return Solution.of([nodes[k] for k in route] for route in result.routes)

    def _options(self, hard: bool) -> dict[str, Any]:
        """Return the options of HGS-CVRP that depend on the settings only."""
        iterations = self.iterations or _NO_LIMIT
        options = {
            "initial_solutions_allow_infeasible": bool(self.limits.given),
            "extract_all_feasible": False,
            "verbose": False,
            "nbIter": max(iterations, _HARD_ITERATIONS) if hard else iterations,
            "timeLimit": self.time_limit or 0.0,
            "mu": self.population,
            "nbGranular": self.granular,
            "nbIterPenaltyManagement": _HARD_PRICES if hard else None,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _initial_solutions(
        self, instance: Instance, fleet: int, starts: Sequence[Solution]
    ) -> list[list[list[int]]]:
        """Return ``starts`` as HGS-CVRP's routes of customers 1..n, without those of too many routes."""
        most = None if self.fleet == "default" else fleet
        solutions = [in_fleet(instance, start, most).routes for start in starts]
        return [
            [np.searchsorted(instance.nodes, route).tolist() for route in routes]
            for routes in solutions
            if len(routes) <= fleet
        ]

    def _duration_limit(self, city: City, instance: Instance) -> float | None:
        """Return the route limit for HGS-CVRP, in scaled costs, less its tolerance."""
        if self.longest_route is None:
            return None
        longest = self.longest_route * cost_factor(city, instance) * (1 + COST_TOLERANCE)
        return max(longest - _EPSILON, 0.0)
