"""Canonical solutions: routes by angle around the depot, each counter-clockwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.problem import DEPOT, City, Solution


def canonical(city: City, solution: Solution) -> Solution:
    """Return ``solution`` with its routes in canonical orientation and order.

    Every route runs counter-clockwise: the area that it encloses with the depot is positive
    (if it is zero, the end with the smaller number comes first). Routes of a city with
    asymmetric costs keep their direction. Routes are sorted by the polar angle of their
    centroid about the depot, in [0, 2 pi) from +x, ties by smallest node. (Appendix on
    route-level permutation invariance: in random order the paper's models were poor.)
    """
    if not solution.routes:
        return solution
    routes = solution.routes
    if city.symmetric:
        routes = tuple(_counter_clockwise(city, route) for route in routes)
    angle = route_angles(city, routes)
    order = sorted(range(len(routes)), key=lambda k: (angle[k], min(routes[k])))
    return Solution(tuple(routes[k] for k in order))


def route_angles(city: City, routes: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return the angle in [0, 2 pi) of each route's centroid (depot excluded) about the depot."""
    lengths = np.array([len(route) for route in routes])
    delta = city.xy[np.concatenate([np.asarray(r, dtype=np.int64) for r in routes])] - city.xy[DEPOT]
    sums = np.add.reduceat(delta, np.concatenate([[0], np.cumsum(lengths)[:-1]]), axis=0)
    return np.mod(np.arctan2(sums[:, 1], sums[:, 0]), 2 * np.pi)


def _counter_clockwise(city: City, route: tuple[int, ...]) -> tuple[int, ...]:
    delta = city.xy[list(route)] - city.xy[DEPOT]  # the depot is the origin: its terms vanish
    doubled_area = float((delta[:-1, 0] * delta[1:, 1] - delta[1:, 0] * delta[:-1, 1]).sum())
    if doubled_area < 0 or (doubled_area == 0 and route[-1] < route[0]):
        return route[::-1]
    return route
