"""Feasible routes without a solver, for tests and benchmarks that need some; knows `model` only."""

from __future__ import annotations

import numpy as np

from mcvrp.model.canonical_form import canonical, route_angles
from mcvrp.model.problem import City, Instance, Solution


def sweep(city: City, instance: Instance) -> Solution:
    """Return routes that pick customers by their angle until the vehicle is full: feasible, not good."""
    order = np.argsort(route_angles(city, instance.ids[:, None].tolist()))
    routes: list[list[int]] = []
    room = 0
    for k in order:
        demand = int(instance.demands[k])
        if demand > room:
            routes.append([])
            room = instance.capacity
        routes[-1].append(int(instance.ids[k]))
        room -= demand
    return canonical(city, Solution.of(routes))
