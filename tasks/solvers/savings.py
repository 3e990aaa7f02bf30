"""Savings solutions (Clarke and Wright 1964) with random noise, as starts of a search. NumPy only.

Only the merges of near customers are considered, so that an instance of 1,000 customers takes some ten
milliseconds per solution. With costs that depend on the direction, the last customer of a route is joined to
the first of another; otherwise any two ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.problem import City, Instance, Solution, require_instances
from mcvrp.model.random import philox_key, philox_uniforms

_NEIGHBOURS = 30  # nearest customers of a customer with which its route may be merged
_SHAPE = 1.1  # weight of the cost between two customers in their saving (Yellow 1970): 0.5 to 1 % cheaper
_ROUNDING = 1e-9  # relative to the legs that are saved: a saving of 0 may be computed as slightly less


def savings(city: City, instance: Instance, seed: int, count: int, noise: float = 0.1) -> list[Solution]:
    """Return ``count`` feasible solutions, a function of the arguments; the first is without noise.

    In each of the others, the cost between two customers has in their saving a random factor between
    ``1 - noise`` and ``1 + noise``. Fewer solutions are a prefix of more.

    Raises McvrpError if the instance belongs to another city.
    """
    require_instances(city, [instance])
    costs, one_way, everyone = _costs(city, instance), not city.symmetric, np.arange(1, instance.n + 1)
    first, second, saved = _merges(costs, everyone, everyone, one_way)
    key = philox_key("savings", str(seed), instance.city_id, instance.orders_hash)
    solutions = []
    for k in range(count):
        changed = noise * (2 * philox_uniforms(key, (k, 0), len(saved)) - 1) if k else 0.0
        order = np.argsort(changed * costs[first, second] - saved, kind="stable")
        routes = _OneWayRoutes(instance) if one_way else _Routes(instance)
        routes.merge(first[order], second[order])
        # routes that have no near neighbours left
        ends, others, gains = _merges(costs, *routes.open_ends(), one_way)
        order = np.argsort(-gains, kind="stable")
        routes.merge(ends[order], others[order])
        solutions.append(Solution.of(instance.nodes[route].tolist() for route in routes.all()))
    return solutions


def _costs(city: City, instance: Instance) -> NDArray[np.float64]:
    """Return the costs between the nodes, ``(n + 1, n + 1)``."""
    if city.matrix is not None:
        return city.costs(instance.nodes)
    x, y = city.unit_xy[instance.nodes].T
    squares = np.subtract.outer(x, x) ** 2 + np.subtract.outer(y, y) ** 2
    return np.sqrt(
        squares, out=squares
    )  # a fifth of the time of City.costs, whose last digits are not needed


def _merges(
    costs: NDArray[np.float64], lasts: NDArray[np.int64], firsts: NDArray[np.int64], one_way: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return near pairs of ends and the savings by which they are merged, three of ``(pairs,)``.

    With ``one_way``, from one of ``lasts`` to one of ``firsts``; otherwise the two are equal, and so are both
    directions. Pairs whose merge costs more than it saves are left out.
    """
    if len(lasts) < 2 or len(firsts) < 2:
        return lasts[:0], firsts[:0], costs[0, :0]
    whole = len(lasts) == len(firsts) == len(costs) - 1
    between = costs[1:, 1:] if whole else costs[np.ix_(lasts, firsts)]
    near = min(_NEIGHBOURS + 1, len(firsts))  # a customer is among its nearest
    nearest = np.argpartition(between, near - 1, axis=1)[:, :near].ravel()
    rows = np.repeat(np.arange(len(lasts)), near)
    if not one_way:
        low, high = np.minimum(rows, nearest), np.maximum(rows, nearest)
        pairs = np.unique((low * len(firsts) + high)[low < high])
        rows, nearest = pairs // len(firsts), pairs % len(firsts)
    first, second = lasts[rows], firsts[nearest]
    legs = costs[first, 0] + costs[0, second]
    saved = legs - costs[first, second]
    worthwhile = (saved >= -_ROUNDING * legs) & (first != second)
    ranked = saved - (_SHAPE - 1) * costs[first, second]
    return first[worthwhile], second[worthwhile], ranked[worthwhile]


class _Routes:
    """Routes of one instance, one per customer at first, by positions 1..n; their ends can be joined."""

    def __init__(self, instance: Instance) -> None:
        n = instance.n
        self._capacity = instance.capacity
        self._least = int(instance.demands.min())
        self._load = [0, *instance.demands.tolist()]  # of a route, at both of its ends
        self._other = list(range(n + 1))  # end of a route, at each of its ends; 0 at the customers between
        self._links: list[list[int]] = [[] for _ in range(n + 1)]

    def merge(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        """Join the routes that end in each pair, in order, if they are two and fit into a vehicle."""
        load, other, links, capacity = self._load, self._other, self._links, self._capacity
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            start, end = other[a], other[b]
            if not start or not end or start == b:
                continue
            total = load[a] + load[b]
            if total > capacity:
                continue
            links[a].append(b)
            links[b].append(a)
            other[a] = other[b] = 0
            other[start], other[end] = end, start
            load[start] = load[end] = total

    def open_ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ends of the routes that have room for another order, twice."""
        most = self._capacity - self._least
        ends = np.array([a for a, end in enumerate(self._other) if end and self._load[a] <= most], np.int64)
        return ends, ends

    def all(self) -> Iterator[list[int]]:
        """Yield each route."""
        for start, end in enumerate(self._other):
            if end and start <= end:
                route, before = [start], 0
                while route[-1] != end:
                    here = route[-1]
                    route.append(next(node for node in self._links[here] if node != before))
                    before = here
                yield route


class _OneWayRoutes:
    """`_Routes` with a direction: the last customer of one can be joined to the first of another."""

    def __init__(self, instance: Instance) -> None:
        n = instance.n
        self._capacity = instance.capacity
        self._least = int(instance.demands.min())
        self._load = [0, *instance.demands.tolist()]  # of a route, at both of its ends
        self._first = list(range(n + 1))  # of a route, at its last customer; 0 at all others
        self._last = list(range(n + 1))  # of a route, at its first customer; 0 at all others
        self._next = [0] * (n + 1)

    def merge(self, lasts: NDArray[np.int64], firsts: NDArray[np.int64]) -> None:
        """Join the routes of each pair, in order, if they are two and fit into a vehicle."""
        load, first, last = self._load, self._first, self._last
        for a, b in zip(lasts.tolist(), firsts.tolist(), strict=True):
            start, end = first[a], last[b]
            total = load[a] + load[b]
            if not start or not end or start == b or total > self._capacity:
                continue
            self._next[a] = b
            first[a] = last[b] = 0
            first[end], last[start] = start, end
            load[start] = load[end] = total

    def open_ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the last and the first customers of the routes that have room for another order."""
        most = self._capacity - self._least
        lasts, firsts = (
            np.array([a for a, end in enumerate(ends) if end and self._load[a] <= most], np.int64)
            for ends in (self._first, self._last)
        )
        return lasts, firsts

    def all(self) -> Iterator[list[int]]:
        """Yield each route."""
        for start, end in enumerate(self._last):
            if end:
                route = [start]
                while following := self._next[route[-1]]:
                    route.append(following)
                yield route
