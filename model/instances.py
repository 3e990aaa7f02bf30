"""Instance (n, i) of a split as a pure function of (city, seed, split, n, i) (Sec. 5.1).

Each instance has its own counter-based random stream, so every worker, in any order and on any machine,
generates the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT, City, Instance
from mcvrp.model.random import philox_key, philox_rows

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


@dataclass(frozen=True)
class Rules:
    """Ranges of a customer's demand and a vehicle's capacity; capacity None: the paper's table, by size."""

    demand: Range = PAPERS_DEMAND
    capacity: Range | None = None

    @classmethod
    def of(cls, city: City | None, demand: Range | None, capacity: Range | None) -> Rules:
        """Return the rules of orders in ``city``; default: the city's ranges, otherwise the paper's."""
        if city is not None:
            demand, capacity = demand or city.demand, capacity or city.capacity
        return cls(demand or PAPERS_DEMAND, capacity)

    def capacity_range(self, n: int) -> Range:
        """Return the smallest and the largest capacity for ``n`` customers.

        McvrpError if ``n`` has no capacity rule, or a customer may want more than a vehicle may hold.
        """
        rows = ((low, high) for first, last, low, high in CAPACITY_TABLE if first <= n <= last)
        allowed = self.capacity or next(rows, None)
        if allowed is None:
            raise McvrpError(
                f"no capacity rule for {n} customers: the table covers 20 to 1000; "
                "give capacity = [low, high]"
            )
        low, largest = allowed[0], self.demand[1]
        if low < largest:
            raise McvrpError(
                f"a vehicle may hold {low} at n={n}, a customer may want {largest}: give capacity"
            )
        return allowed


@dataclass(frozen=True, eq=False)
class InstanceRows:
    """Instances of one size; position 0 of a row is the depot.

    ``ids`` int64 ``(B, n + 1)`` are the city's node numbers, ascending, ``demands`` int64
    ``(B, n + 1)`` are 0 at the depot, ``capacity`` int64 ``(B,)``.
    """

    ids: NDArray[np.int64]
    demands: NDArray[np.int64]
    capacity: NDArray[np.int64]


@dataclass(frozen=True)
class InstanceStream:
    """All instances of one split of one city.

    Instances of different seeds are unrelated. The splits "train", "valid" (monitoring of training), "trial"
    (selection of a challenger) and "test" (benchmarks) have no common random word, whatever their seeds.
    """

    city: City
    seed: int
    split: Split
    rules: Rules = Rules()

    def __call__(self, n: int, i: int) -> Instance:
        """Return the i-th instance with ``n`` customers; raises as `instance_rows`."""
        rows = instance_rows(self, n, i, i + 1)
        ids, demands = rows.ids[0, 1:].astype(np.uint32), rows.demands[0, 1:].astype(np.uint16)
        return Instance(self.city.city_id, ids, demands, int(rows.capacity[0]))


def instance_rows(stream: InstanceStream, n: int, start: int, stop: int) -> InstanceRows:
    """Return instances (n, start) to (n, stop - 1) of ``stream``.

    Customers are drawn without replacement, demand and capacity uniformly. McvrpError if the city has fewer
    than ``n`` customers or ``n`` has no capacity rule.
    """
    city, m = stream.city, stream.city.customers
    if not 1 <= n <= m:
        raise McvrpError(f"cannot draw {n} customers from a city of {m}: ask for no more")
    low, high = stream.rules.capacity_range(n)
    smallest, largest = stream.rules.demand
    key = philox_key("instance", city.city_id, str(stream.seed), stream.split)
    u = philox_rows(key, [(i, n) for i in range(start, stop)], 2 * n + 1)
    customers = _without_replacement(u[:, :n], m) + 1
    order = customers.argsort(axis=1)
    drawn = smallest + np.floor(u[:, n : 2 * n] * (largest - smallest + 1))
    ids = np.full((len(u), n + 1), DEPOT, dtype=np.int64)
    demands = np.zeros((len(u), n + 1), dtype=np.int64)
    ids[:, 1:] = np.take_along_axis(customers, order, axis=1)
    demands[:, 1:] = np.take_along_axis(drawn, order, axis=1)
    capacity = low + np.floor(u[:, 2 * n] * (high - low + 1))
    return InstanceRows(ids, demands, capacity.astype(np.int64))


def _without_replacement(u: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Return distinct numbers below ``m`` per row of ``u``: the first steps of a Fisher-Yates shuffle."""
    steps = np.arange(u.shape[1])
    picks = (steps + np.floor(u * (m - steps))).astype(np.int64)
    for row in picks:
        moved: dict[int, int] = {}  # entries of the shuffled array that differ from the identity
        for step, pick in enumerate(row.tolist()):
            row[step] = moved.get(pick, pick)
            moved[pick] = moved.get(step, step)
    return picks
