"""HGS-CVRP (Vidal 2022), the label solver of the paper, through hybgensea."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

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

_NO_LIMIT = 2**31 - 1  # iterations without improvement, when the clock decides
# Where orders are hard to pack: iterations without improvement, at least; iterations between two changes
# of the price of an overload, else 100; vehicles beyond those that hold all orders.
_HARD_ITERATIONS, _HARD_PRICES, _SPARE_VEHICLES = 1000, 20, 3
_LENIENT = 1e-5  # MY_EPSILON of HGS-CVRP: by how much less a route may be longer than its limit


def own_bound(instance: Instance) -> int:
    """Return the most vehicles that HGS-CVRP allows itself where it is given no fleet."""
    return math.ceil(1.3 * int(instance.demands.sum()) / instance.capacity) + 3


@dataclass(frozen=True)
class HGS:
    """Hybrid genetic search.

    Parameters
    ----------
    time_limit
        Seconds of processor time a run, which goes on without a restart until they are over.
    iterations
        Iterations without improvement after which a run ends: the same answer for the same seed.
    fleet
        Most vehicles: "default" is HGS-CVRP's own ceil(1.3 total demand / capacity) + 3, and more where
        orders need more; the authors' public helper for the paper sets 10,000, which costs solution
        quality.
    longest_route
        As in `Limits`; "default" is then a vehicle a customer.
    population
        Smallest population (Vidal's mu, 25 by default). A run first improves four times as many
        random solutions: at n = 20 that is most of its time, and far fewer will do.
    granular
        Nearest neighbours of a customer that local search tries (Vidal's granular search, 20 by
        default).
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
        """What its routes keep beside the capacity."""
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
        """Yield one answer an instance; McvrpError for a city with asymmetric costs."""
        require_costs(self.label, "symmetric", city)
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, or of a second, longer one, where that has no answer.

        A run of a few iterations may end before any solution is feasible: the price of an overload rises
        every 100 of them, and orders of about half a vehicle need a high one. A run with a time limit, or
        from ``starts``, has no second. Where orders provably need more vehicles than HGS-CVRP's bound, the
        first is left out.

        Parameters
        ----------
        city, instance, seed
            What is solved, and the seed of the search.
        starts
            Solutions of the instance that join the population before its random ones. They may break the
            limits. Those with more routes than HGS-CVRP's own bound are left out; of those with more than a
            fleet that is given, the lightest are put behind others.

        Raises
        ------
        SolverFailed
            If it ends without an answer, or breaks a limit.
        """
        found = self._found(city, instance, seed, starts)
        if broken := self.limits.broken(city, found):
            raise SolverFailed(f"HGS found {broken}")
        return found

    def _found(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution]) -> Solution:
        if instance.n == 1:  # HGS-CVRP's crossover looks for a second customer, for ever
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
        iterations = self.iterations or _NO_LIMIT
        demands = np.concatenate([[0.0], instance.demands.astype(np.float64)])
        most = None if self.fleet == "default" else fleet
        begun = [in_fleet(instance, start, most).routes for start in starts]
        options = {
            "initial_solutions": [
                [np.searchsorted(instance.nodes, route).tolist() for route in routes]
                for routes in begun
                if len(routes) <= fleet
            ],
            "initial_solutions_allow_infeasible": bool(self.limits.given),
            "duration_limit": self._duration_limit(city, instance),
            "num_vehicles": fleet,
            "extract_all_feasible": False,
            "verbose": False,
            "seed": seed,
            "nbIter": max(iterations, _HARD_ITERATIONS) if hard else iterations,
            "timeLimit": self.time_limit or 0.0,
            **({} if self.population is None else {"mu": self.population}),
            **({} if self.granular is None else {"nbGranular": self.granular}),
            **({"nbIterPenaltyManagement": _HARD_PRICES} if hard else {}),
        }
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
        except (RuntimeError, ValueError) as error:  # the second: a fleet that cannot carry all
            raise SolverFailed(f"HGS gave up: {error}") from error
        nodes = instance.nodes.tolist()
        return Solution.of([nodes[k] for k in route] for route in result.routes)

    def _duration_limit(self, city: City, instance: Instance) -> float | None:
        """Return the longest route as HGS-CVRP takes it: in scaled costs, and less what it lets pass."""
        if self.longest_route is None:
            return None
        longest = self.longest_route * cost_factor(city, instance) * (1 + COST_TOLERANCE)
        return max(longest - _LENIENT, 0.0)
