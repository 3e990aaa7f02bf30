"""The cost of the best solution of a handful of customers, by trying all: the oracle of solvers."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

from mcvrp.model.instances import Rules
from mcvrp.model.problem import City, Instance
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits

SMALL = Rules(capacity=(12, 18))  # seven customers need two to five routes


def best_cost(city: City, instance: Instance, limits: Limits = NO_LIMITS) -> float:
    """Return the optimum by trying every split into routes; infinite if no routes keep the limits."""
    legs = city.costs(instance.nodes)
    customers = range(1, instance.n + 1)

    def tour(chosen: tuple[int, ...]) -> float:
        orders = itertools.permutations(chosen)
        return min(legs[(0, *order), (*order, 0)].sum() for order in orders)

    route = {
        chosen: tour(chosen)
        for size in range(1, instance.n + 1)
        for chosen in itertools.combinations(customers, size)
        if sum(int(instance.demands[k - 1]) for k in chosen) <= instance.capacity
    }

    if limits.longest_route is not None:
        most, service = limits.longest_route * (1 + 1e-9), limits.service or {}
        stops = {chosen: sum(service.get(int(instance.ids[k - 1]), 0.0) for k in chosen) for chosen in route}
        route = {chosen: length for chosen, length in route.items() if length + stops[chosen] <= most}

    @lru_cache(None)
    def serve(left: frozenset[int], vehicles: int) -> float:
        if not left:
            return 0.0
        if not vehicles:
            return math.inf
        first = min(left)
        choices = [chosen for chosen in route if chosen[0] == first and left.issuperset(chosen)]
        costs = (route[chosen] + serve(left - set(chosen), vehicles - 1) for chosen in choices)
        return min(costs, default=math.inf)

    return serve(frozenset(customers), limits.fleet or instance.n)


def every_path(demands: list[int], capacity: int) -> list[list[int]]:
    """Return every path that the mask allows, by brute force over orders and returns, padded alike."""
    n, paths = len(demands), []
    for order in itertools.permutations(range(1, n + 1)):
        for breaks in itertools.product([False, True], repeat=n - 1):
            path, load, good = [0], 0, True
            for k, node in enumerate(order):
                if k and breaks[k - 1]:
                    path.append(0)
                    load = 0
                load += demands[node - 1]
                good &= load <= capacity
                path.append(node)
            if good:
                paths.append([*path, 0] + [0] * (2 * n - len(path)))
    return paths
