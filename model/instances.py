"""Instance (n, i) of a split as a pure function of (city, seed, split, n, i) (Sec. 5.1).

Each instance reads its own counter-based random stream, so any worker makes any instance in
any order on any machine and gets the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import PAPERS_DEMAND, City, Instance, capacity_range
from mcvrp.model.random import philox_key, philox_uniforms

Range = tuple[int, int]  # smallest and largest, both included

Split = Literal["train", "valid", "test", "trial"]


@dataclass(frozen=True)
class Rules:
    """Rules by which demands and capacities are drawn.

    Parameters
    ----------
    demand
        Smallest and largest demand of a customer, both included.
    capacity
        Smallest and largest capacity of a vehicle, both included; None takes the
        paper's table, which depends on the number of customers.
    """

    demand: Range = PAPERS_DEMAND
    capacity: Range | None = None

    @classmethod
    def of(cls, city: City | None, demand: Range | None, capacity: Range | None) -> Rules:
        """Return the rules of orders in ``city``: what is given, else the city's own, else the paper's."""
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
        The city whose customers are drawn.
    seed
        Names the stream; another seed gives unrelated instances.
    split
        "train", "valid" (watched while training), "trial" (a challenger is chosen by) or "test" (measured
        on): streams that share no random word, whatever their seeds.
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


def _sample_without_replacement(u: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Return ``len(u)`` distinct numbers below ``m``: the first steps of a Fisher-Yates shuffle."""
    n = len(u)
    steps = np.arange(n)
    picks = (steps + np.floor(u * (m - steps)).astype(np.int64)).tolist()
    moved: dict[int, int] = {}  # the shuffled array, where it differs from the identity
    chosen = []
    for step, pick in enumerate(picks):
        chosen.append(moved.get(pick, pick))
        moved[pick] = moved.get(step, step)
    return np.array(chosen, dtype=np.int64)
