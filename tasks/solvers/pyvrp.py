"""PyVRP: iterated local search on integer costs, symmetric or not, for all customers or as many as fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import ClassVar

import numpy as np
import pyvrp
from pyvrp.exceptions import PenaltyBoundWarning
from pyvrp.search import NeighbourhoodParams
from pyvrp.stop import NoImprovement

from mcvrp.model.city import no_road
from mcvrp.model.problem import COST_TOLERANCE, City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.budgets import settings_text
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.searches import SCALED, LimitedSearch, in_fleet, scaled_costs
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, SolverFailed

NO_ROUTES = Solution(())
_PARTS = round(1 / COST_TOLERANCE)  # units of the longest route in which durations are counted
_PATIENCE = 2000  # iterations without improvement, after which whom to leave out is settled
_FARTHEST = 10_000  # with prizes, distances are at most this, so that prizes and penalties fit into 64 bits


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
        result = _searched(data, stop, seed, params, first)
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


def serve_most(
    city: City,
    instance: Instance,
    limits: Limits,
    start: Solution,
    *,
    seconds: float,
    seed: int,
    least: int,
    exchanged: Collection[int] = (),
) -> Solution:
    """Return routes within ``limits`` of those whom ``start`` serves and as many others as were found.

    ``start`` is within the limits and leaves out customers of ``instance``, perhaps all. Those who may be
    ``exchanged`` for others are left out if that is cheaper. The search ends when only ``least`` are left out
    and it has not improved for long, or after ``seconds`` of wall-clock time.
    """
    until = time.perf_counter() + seconds
    data = problem_data(city, instance, limits)
    prize = 2 * _FARTHEST * (instance.n + 1)  # more than any routes cost
    required = {node for route in start.routes for node in route} - set(exchanged)
    clients = [
        pyvrp.Client(
            client.location,
            delivery=client.delivery,
            service_duration=client.service_duration,
            required=node in required,
            prize=0 if node in required else prize,
        )
        for node, client in zip(instance.ids.tolist(), data.clients(), strict=True)
    ]
    costs = data.distance_matrix(0)
    given = city.costs(instance.nodes)
    forbidden = given >= no_road(given)
    costs = costs // (1 + costs[~forbidden].max() // _FARTHEST)
    data = data.replace(
        clients=clients, distance_matrices=[np.where(forbidden, prize * (instance.n + 1), costs)]
    )
    # the excess of one unit costs as much as a customer is worth
    params = pyvrp.SolveParams(penalty=pyvrp.PenaltyParams(max_penalty=2.0 * prize))
    settled = NoImprovement(_PATIENCE if least else 1)

    def stop(cost: int) -> bool:
        return (cost < prize * (least + 1) and settled(cost)) or time.perf_counter() > until

    first = visits(data, instance, start) if start.routes else None
    result = _searched(data, stop, seed, params, first)
    solution = solution_of(instance, result.best)
    served = only(instance, {node for route in solution.routes for node in route})
    wrong = served is None or not result.is_feasible() or infeasibility(served, solution)
    return start if wrong or limits.broken(city, solution) else solution


def only(instance: Instance, nodes: Collection[int]) -> Instance | None:
    """Return the orders of the customers ``nodes`` of ``instance``, None without any."""
    chosen = [node in nodes for node in instance.ids.tolist()]
    if not any(chosen):
        return None
    return Instance(instance.city_id, instance.ids[chosen], instance.demands[chosen], instance.capacity)


def _searched(
    data: pyvrp.ProblemData,
    stop: Callable[[int], bool],
    seed: int,
    params: pyvrp.SolveParams,
    first: pyvrp.Solution | None,
) -> pyvrp.Result:
    """Return the result of PyVRP, which may be infeasible."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PenaltyBoundWarning)  # callers check feasibility
        return pyvrp.solve(
            data,
            stop,
            seed=seed % 2**32,
            collect_stats=False,
            display=False,
            params=params,
            initial_solution=first,
        )


@dataclass
class _ProcessorTime:
    """Stopping criterion of processor time, which is independent of the load of the machine."""

    seconds: float
    began: float = field(default_factory=time.thread_time)

    def __call__(self, best_cost: int) -> bool:
        return time.thread_time() - self.began > self.seconds
