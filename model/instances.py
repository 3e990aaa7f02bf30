"""Instance (n, i) of a split as a pure function of (city, seed, split, n, i) (Sec. 5.1).

Each instance has its own counter-based random stream, so every worker, in any order and on any machine,
generates the same bytes. `instance_rows` generates many of one size at once, as reinforcement learning
needs millions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT, City, Instance
from mcvrp.model.random import philox_key, philox_rows, philox_uniforms

Range = tuple[int, int]  # smallest and largest, both included

Split = Literal["train", "valid", "test", "trial"]
PAPERS_DEMAND = (1, 9)  # smallest and largest demand of a customer (Sec. 5.1)

# Table 1 of the paper: customers from, to (inclusive), capacity from, to (inclusive).
CAPACITY_TABLE = (
    (20, 49, 30, 39),
    (50, 99, 40, 49),
    (100, 199, 50, 59),
    (200, 400, 60, 69),
    (401, 1000, 70, 79),
)


def capacity_range(n: int) -> tuple[int, int]:
    """Return the smallest and the largest vehicle capacity for ``n`` customers (Table 1).

    Raises
    ------
    McvrpError
        If the table has no row for ``n``.
    """
    for first, last, low, high in CAPACITY_TABLE:
        if first <= n <= last:
            return low, high
    raise McvrpError(
        f"no capacity rule for {n} customers: the table covers 20 to 1000; give capacity = [low, high]"
    )


@dataclass(frozen=True)
class Rules:
    """Rules by which demands and capacities are drawn.

    Parameters
    ----------
    demand
        Smallest and largest demand of a customer, both included.
    capacity
        Smallest and largest capacity of a vehicle, both included; None: the paper's table, by number of
        customers.
    """

    demand: Range = PAPERS_DEMAND
    capacity: Range | None = None

    @classmethod
    def of(cls, city: City | None, demand: Range | None, capacity: Range | None) -> Rules:
        """Return the rules of orders in ``city``; default: the city's ranges, otherwise the paper's."""
        if city is not None:
            demand, capacity = demand or city.demand, capacity or city.capacity
        return cls(demand or PAPERS_DEMAND, capacity)

    def capacity_range(self, n: int) -> tuple[int, int]:
        """Return the smallest and the largest capacity for ``n`` customers.

        Raises
        ------
        McvrpError
            If ``n`` has no capacity rule, or a customer may want more than a vehicle may hold.
        """
        low, high = self.capacity or capacity_range(n)
        if low < self.demand[1]:
            raise McvrpError(
                f"a vehicle may hold {low} at n={n}, a customer may want {self.demand[1]}: give capacity"
            )
        return low, high


@dataclass(frozen=True)
class InstanceStream:
    """All instances of one split of one city.

    Parameters
    ----------
    city
        City of the customers.
    seed
        Random seed of the stream; instances of different seeds are unrelated.
    split
        "train", "valid" (monitoring of training), "trial" (selection of a challenger) or "test"
        (benchmarks): streams without a common random word, whatever their seeds.
    rules
        Ranges of demand and capacity.
    """

    city: City
    seed: int
    split: Split
    rules: Rules = Rules()

    def __call__(self, n: int, i: int) -> Instance:
        """Return the i-th instance with ``n`` customers.

        Customers are drawn without replacement, demand and capacity uniformly.

        Raises
        ------
        McvrpError
            If the city has fewer than ``n`` customers or ``n`` has no capacity rule.
        """
        m = self.city.customers
        if not 1 <= n <= m:
            raise McvrpError(f"cannot draw {n} customers from a city of {m}: ask for no more")
        low, high = self.rules.capacity_range(n)
        smallest, largest = self.rules.demand
        key = philox_key("instance", self.city.city_id, str(self.seed), self.split)
        u = philox_uniforms(key, (i, n), 2 * n + 1)
        ids = _sample_without_replacement(u[:n], m) + 1
        order = np.argsort(ids)
        demands = smallest + np.floor(u[n : 2 * n] * (largest - smallest + 1))
        capacity = low + int(u[2 * n] * (high - low + 1))
        return Instance(
            self.city.city_id, ids[order].astype(np.uint32), demands[order].astype(np.uint16), capacity
        )


@dataclass(frozen=True, eq=False)
class InstanceRows:
    """Instances of one size; position 0 of a row is the depot.

    ``ids`` int64 ``(B, n + 1)`` are the city's node numbers, ascending, ``demands`` int64
    ``(B, n + 1)`` are 0 at the depot, ``capacity`` int64 ``(B,)``.
    """

    ids: NDArray[np.int64]
    demands: NDArray[np.int64]
    capacity: NDArray[np.int64]


def instance_rows(stream: InstanceStream, n: int, start: int, stop: int) -> InstanceRows:
    """Return instances (n, start) to (n, stop - 1) of ``stream``; McvrpError as the stream raises."""
    m = stream.city.customers
    first = stream(n, start)  # checks n and the rules
    low, high = stream.rules.capacity_range(n)
    smallest, largest = stream.rules.demand
    key = philox_key("instance", stream.city.city_id, str(stream.seed), stream.split)
    index = np.arange(start, stop, dtype=np.uint64)
    u = philox_rows(key, np.stack([index, np.full_like(index, n)], axis=1), 2 * n + 1)
    customers = _rows_without_replacement(u[:, :n], m) + 1
    order = customers.argsort(axis=1)
    drawn = smallest + np.floor(u[:, n : 2 * n] * (largest - smallest + 1))
    ids = np.full((len(u), n + 1), DEPOT, dtype=np.int64)
    demands = np.zeros((len(u), n + 1), dtype=np.int64)
    ids[:, 1:] = np.take_along_axis(customers, order, axis=1)
    demands[:, 1:] = np.take_along_axis(drawn, order, axis=1)
    assert (ids[0, 1:] == first.ids).all()
    capacity = low + np.floor(u[:, 2 * n] * (high - low + 1))
    return InstanceRows(ids, demands, capacity.astype(np.int64))


def _sample_without_replacement(u: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Return ``len(u)`` distinct numbers below ``m``: the first steps of a Fisher-Yates shuffle."""
    n = len(u)
    steps = np.arange(n)
    picks = (steps + np.floor(u * (m - steps)).astype(np.int64)).tolist()
    moved: dict[int, int] = {}  # entries of the shuffled array that differ from the identity
    chosen = []
    for step, pick in enumerate(picks):
        chosen.append(moved.get(pick, pick))
        moved[pick] = moved.get(step, step)
    return np.array(chosen, dtype=np.int64)


def _rows_without_replacement(u: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Return `_sample_without_replacement` for each row of ``u`` ``(B, n)``, in array operations."""
    count, n = u.shape
    picks = (np.arange(n) + np.floor(u * (m - np.arange(n)))).astype(np.int64)
    shuffled = np.tile(np.arange(m, dtype=np.int32), (count, 1))
    rows = np.arange(count)
    chosen = np.empty_like(picks)
    for step in range(n):
        pick = picks[:, step]
        chosen[:, step] = shuffled[rows, pick]
        shuffled[rows, pick] = shuffled[:, step]
    return chosen
