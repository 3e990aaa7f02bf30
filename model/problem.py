"""The Montreal CVRP: a city, the orders of one day on it, the routes that serve them. NumPy only.

Node 0 is the depot of every city, nodes 1..m are its customers. An instance picks some of
the customers; a solution is written in the city's node numbers, never in positions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import index
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import DEPOT as DEPOT, City as City, frozen
from mcvrp.model.errors import McvrpError

Costs = TypeVar("Costs", float, NDArray[np.float64])
# Relative: sums of the same legs in float64 differ by less, costs of different routes by more.
COST_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Instance:
    """The orders of one day in the city ``city_id``.

    McvrpError if there are no customers, ids repeat, are not ascending or name the depot, or a demand is 0 or
    above the capacity.
    """

    city_id: str
    ids: NDArray[np.uint32] = field(repr=False)  # (n,), node numbers of the customers, ascending
    demands: NDArray[np.uint16] = field(repr=False)  # (n,), in units of capacity
    capacity: int  # of a vehicle

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _whole(self.ids, np.uint32, "a customer's number"))
        object.__setattr__(self, "demands", _whole(self.demands, np.uint16, "a demand"))
        object.__setattr__(self, "capacity", int(_whole(self.capacity, np.int64, "a capacity")))
        if not self.ids.size and not self.demands.size:
            raise McvrpError(
                "an instance needs at least one customer, there are no orders to route: add some"
            )
        if self.ids.ndim != 1 or self.ids.shape != self.demands.shape:
            raise McvrpError(
                f"an instance needs one demand a customer, it has {self.ids.shape} ids and "
                f"{self.demands.shape} demands: give as many"
            )
        if self.ids[0] == DEPOT or (np.diff(self.ids.astype(np.int64)) <= 0).any():
            raise McvrpError(
                "the customers of an instance must be distinct, ascending and not the depot: correct its ids"
            )
        if (self.demands < 1).any():
            raise McvrpError(f"customer {self.ids[self.demands < 1][0]} has no demand: give it 1 or more")
        if (self.demands > self.capacity).any():
            worst = int(np.argmax(self.demands))
            raise McvrpError(
                f"customer {self.ids[worst]} wants {self.demands[worst]}, a vehicle holds {self.capacity}: "
                "split the order, or use larger vehicles"
            )

    @classmethod
    def of(cls, city: City, orders: Mapping[Any, int], capacity: int) -> Instance:
        """Return the instance with ``orders``, the demand of each customer by its id (`City.address_ids`).

        McvrpError if an id is not in the city, or as the constructor.
        """
        nodes, demands = city.nodes(orders), np.array(list(orders.values()))
        order = np.argsort(nodes)
        return cls(city.city_id, nodes[order].astype(np.uint32), demands[order], capacity)

    @property
    def n(self) -> int:
        """The number of customers."""
        return len(self.ids)

    @property
    def orders_hash(self) -> str:
        """Hash of customers, demands and capacity."""
        digest = hashlib.sha256(self.ids.astype("<u4").tobytes() + self.demands.astype("<u2").tobytes())
        digest.update(str(self.capacity).encode())
        return digest.hexdigest()

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The depot and the customers, int64 ``(n + 1,)``: position 0 is the depot."""
        return np.concatenate([[DEPOT], self.ids.astype(np.int64)])


def require_instances(city: City, instances: Sequence[Instance]) -> None:
    """Raise McvrpError unless each of ``instances`` is of ``city`` or one it extends, with its customers."""
    for instance in instances:
        if not city.accepts(instance.city_id):
            raise McvrpError(
                f"an instance belongs to city {instance.city_id}, not to city {city.city_id}: give that city"
            )
        if instance.ids[-1] > city.customers:
            raise McvrpError(
                f"customer {instance.ids[-1]} of an instance is not in the city, whose customers are 1 to "
                f"{city.customers}: give the city that it was drawn from"
            )


@dataclass(frozen=True)
class Solution:
    """Routes in the city's node numbers, the depot left out."""

    routes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, routes: Iterable[Iterable[int]]) -> Solution:
        """Return the solution with ``routes``, empty ones dropped; TypeError if a node is not an integer."""
        return cls(tuple(route for route in (tuple(map(index, r)) for r in routes) if route))

    @classmethod
    def from_path(cls, path: Iterable[int]) -> Solution:
        """Return the solution whose depot-separated sequence is ``path``."""
        parts = groupby(path, lambda node: node == DEPOT)
        return cls.of(nodes for at_depot, nodes in parts if not at_depot)

    @property
    def path(self) -> NDArray[np.int64]:
        """The sequence 0, route, 0, route, ..., 0."""
        return np.array([DEPOT] + [node for route in self.routes for node in (*route, DEPOT)])

    @property
    def in_order(self) -> Solution:
        """The same routes sorted by customer numbers, so that solutions with the same routes are equal."""
        return Solution(tuple(sorted(self.routes)))


def cost(city: City, solution: Solution) -> float:
    """Return the total travel cost of ``solution`` in the city's unit; McvrpError if it has other nodes."""
    path = solution.path
    city.require_nodes(path)
    return exact_sum(city.legs(path))


def gap(cost: Costs, baseline: Costs) -> Costs:
    """Return the gap of ``cost`` to ``baseline``, ``100 (z - z_base) / z_base`` percent; 0 if both are 0."""
    return 100 * (cost - baseline) / (baseline + (cost == baseline))  # 0 / 1 instead of 0 / 0


def exact_sum(legs: NDArray[np.float64]) -> float:
    """Return the sum of ``legs``, rounded once, so that the order of routes does not change a cost."""
    return math.fsum(legs.tolist())


def infeasibility(instance: Instance, solution: Solution) -> str | None:
    """Return the reason for which ``solution`` does not serve ``instance``, or None if it is feasible."""
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    served: set[int] = set()
    for number, route in enumerate(solution.routes, start=1):
        load = 0
        for node in route:
            if node not in demand:
                return f"node {node} of route {number} is not a customer of the instance"
            if node in served:
                return f"customer {node} served twice"
            served.add(node)
            load += demand[node]
        if load > instance.capacity:
            return f"route {number} carries {load}, a vehicle holds {instance.capacity}"
    missing = demand.keys() - served
    if missing:
        return f"customer {min(missing)} not served ({len(missing)} missing)"
    return None


def _whole(values: Any, dtype: type, name: str) -> NDArray[Any]:
    """Return ``values`` as a read-only array; McvrpError if one is not a whole number of ``dtype``."""
    limits, array = np.iinfo(dtype), np.asarray(values)
    if array.dtype == dtype:
        return frozen(array, dtype)
    numbers = array.astype(np.float64)
    wrong = (numbers < limits.min) | (numbers > limits.max) | (numbers != np.floor(numbers))
    if wrong.any():
        raise McvrpError(
            f"{name} is a whole number from {limits.min} to {limits.max}, not {numbers[wrong].flat[0]:g}"
        )
    return frozen(array, dtype)
