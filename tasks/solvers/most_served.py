"""Routes of as many customers as limits allow: PyVRP, with a prize for each customer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection

import numpy as np
import pyvrp
from pyvrp.exceptions import PenaltyBoundWarning

from mcvrp.model.city import no_road
from mcvrp.model.problem import City, Instance, Solution, infeasibility
from mcvrp.tasks.solvers.pyvrp import problem_data, solution_of, visits
from mcvrp.tasks.solvers.solver import Limits

NO_ROUTES = Solution(())
_FARTHEST = 10_000  # distances are divided to at most this, so that prizes and penalties fit into 64 bits


def serve_most(
    city: City, instance: Instance, limits: Limits, start: Solution, *, seconds: float, seed: int, least: int
) -> Solution:
    """Return routes within ``limits`` of those whom ``start`` serves and as many others as were found.

    ``start`` is within the limits and leaves out customers of ``instance``, perhaps all. The search ends when
    only ``least`` are left out, or after ``seconds`` of wall-clock time.
    """
    until = time.perf_counter() + seconds
    data = problem_data(city, instance, limits)
    prize = 2 * _FARTHEST * (instance.n + 1)  # more than any routes cost
    required = {node for route in start.routes for node in route}
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
    penalties = pyvrp.PenaltyParams(max_penalty=2.0 * prize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PenaltyBoundWarning)
        result = pyvrp.solve(
            data,
            lambda cost: cost < prize * (least + 1) or time.perf_counter() > until,
            seed=seed % 2**32,
            collect_stats=False,
            display=False,
            params=pyvrp.SolveParams(penalty=penalties),
            initial_solution=visits(data, instance, start) if required else None,
        )
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
