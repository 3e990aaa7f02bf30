"""Stops of a routed day: each route from depot to depot, with loads and costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcvrp.model.problem import DEPOT
from mcvrp.tasks.solve.day import Solved

_DECIMALS = 6  # of a cost


@dataclass(frozen=True)
class Stop:
    """Row of routes.csv: position of a vehicle, its load, and the cost of getting there."""

    route: int
    stop: int
    customer: str
    demand: int
    load_after: int
    leg_cost: float
    cumulative_cost: float


def stops_of(solved: Solved) -> list[list[Stop]]:
    """Return the stops of each route: the depot, the customers in order, the depot again."""
    city, instance, ids = solved.planned.city, solved.planned.day.instance, solved.planned.addresses.ids
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = []
    for number, route in enumerate(solved.solution.routes, start=1):
        path = [DEPOT, *route, DEPOT]
        legs = np.concatenate([[0.0], city.legs(np.array(path))])
        demands = [demand.get(node, 0) for node in path]
        loads, costs = np.cumsum(demands).tolist(), np.cumsum(legs).tolist()
        routes.append(
            [
                Stop(number, k, ids[node], demands[k], loads[k], _rounded(legs[k]), _rounded(costs[k]))
                for k, node in enumerate(path)
            ]
        )
    return routes


def _rounded(cost: float) -> float:
    return round(float(cost), _DECIMALS)
