"""PyVRP: iterated local search on integer costs, symmetric or not."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import ClassVar

import numpy as np
import pyvrp
from pyvrp.exceptions import PenaltyBoundWarning
from pyvrp.search import NeighbourhoodParams
from pyvrp.stop import NoImprovement

from mcvrp.model.problem import COST_TOLERANCE, City, Instance, Solution, cost
from mcvrp.tasks.solvers.budgets import settings_text
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.searches import SCALED, LimitedSearch, in_fleet, scaled_costs
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, SolverFailed

_PARTS = round(1 / COST_TOLERANCE)  # units of the longest route in which durations are counted


@dataclass(frozen=True)
class PyVRP(LimitedSearch):
    """PyVRP's search, from the first of its starts if any.

    If a start has more routes than vehicles, those with the least load are appended to others, which are then
    overloaded.

    Parameters
    ----------
    time_limit, iterations, tuned, fleet, longest_route
        As in `LimitedSearch`. The default fleet is one vehicle per customer; HGS-CVRP's bound was no better.
    granular
        Number of nearest neighbours in local search (50 by default).
    savings
        Number of savings solutions, of which the cheapest is the start if there is no other; none by default.
        Their seconds count to the time limit.
    """

    granular: int | None = None
    savings: int | None = None
    label: ClassVar[str] = "PyVRP"
    solver: ClassVar[str] = "pyvrp"
    version: ClassVar[str] = f"pyvrp {version('pyvrp')}"

    @property
    def configuration(self) -> str:
        """Program, budget, fleet and scale in one line."""
        settings = settings_text(None, self.granular, None, self.savings)
        return f"{self.version}, {self.settings}{settings}, {SCALED}, whole distances"

    def _solution(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution]) -> Solution:
        # the clock starts before the conversion, which is part of the run
        stop = NoImprovement(self.iterations) if self.iterations else _ProcessorTime(self.time_limit or 0.0)
        data, params = problem_data(city, instance, self.limits), pyvrp.SolveParams()
        if self.granular is not None:
            params = pyvrp.SolveParams(neighbourhood=NeighbourhoodParams(num_neighbours=self.granular))
        if self.savings and not starts:
            built = savings(city, instance, seed, self.savings)
            starts = [min(built, key=lambda solution: cost(city, solution))]
        first = visits(data, instance, in_fleet(instance, starts[0], self.limits.fleet)) if starts else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PenaltyBoundWarning)  # infeasible results are handled below
            result = pyvrp.solve(
                data,
                stop,
                seed=seed % 2**32,
                collect_stats=False,
                display=False,
                params=params,
                initial_solution=first,
            )
        if not result.is_feasible():
            raise SolverFailed("PyVRP found no feasible routes")
        return solution_of(instance, result.best)


def problem_data(city: City, instance: Instance, limits: Limits = NO_LIMITS) -> pyvrp.ProblemData:
    """Return the instance as PyVRP's data: integer distances, client k - 1 is the k-th customer.

    Lengths for a route limit are durations, in finer units than the distances and each rounded down, so that
    rounding makes no route infeasible. A route that is too long by at most one unit per leg and stop is
    accepted here; callers check the exact limit.
    """
    costs = np.rint(scaled_costs(city, instance)[0]).astype(np.int64)
    lengths, longest, service = np.zeros_like(costs), dict[str, int](), [0] * instance.n
    if limits.longest_route is not None:
        scale, served = _PARTS / limits.longest_route, limits.service or {}
        lengths = np.minimum(city.costs(instance.nodes) * scale, _PARTS + 2).astype(np.int64)  # may exceed it
        service = [int(min(served.get(node, 0.0) * scale, _PARTS + 2)) for node in instance.ids.tolist()]
        np.fill_diagonal(lengths, 0)
        longest["shift_duration"] = _PARTS + 1  # COST_TOLERANCE
    vehicles = min(instance.n, limits.fleet or instance.n)
    return pyvrp.ProblemData(
        locations=[pyvrp.Location(x, y) for x, y in city.xy[instance.nodes].tolist()],
        clients=[
            pyvrp.Client(k, delivery=[demand], service_duration=seconds)
            for k, (demand, seconds) in enumerate(
                zip(instance.demands.tolist(), service, strict=True), start=1
            )
        ],
        depots=[pyvrp.Depot(0)],
        vehicle_types=[pyvrp.VehicleType(vehicles, capacity=[instance.capacity], **longest)],
        distance_matrices=[costs],
        duration_matrices=[lengths],
    )


def visits(data: pyvrp.ProblemData, instance: Instance, solution: Solution) -> pyvrp.Solution:
    """Return ``solution`` as PyVRP's solution: routes of client numbers."""
    return pyvrp.Solution(data, [np.searchsorted(instance.ids, route).tolist() for route in solution.routes])


def solution_of(instance: Instance, solution: pyvrp.Solution) -> Solution:
    """Return PyVRP's solution in the city's node numbers."""
    ids = instance.ids.tolist()
    return Solution.of(
        [ids[stop.idx] for stop in route.schedule() if stop.is_client()] for route in solution.routes()
    )


@dataclass
class _ProcessorTime:
    """Stopping criterion of processor time, which is independent of the load of the machine."""

    seconds: float
    began: float = field(default_factory=time.thread_time)

    def __call__(self, best_cost: int) -> bool:
        return time.thread_time() - self.began > self.seconds
