"""Ranges of demand and capacity from past orders, from which training instances are sampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.tabular import Tabular

_QUANTILES = (0.005, 0.995)  # robust against mistyped orders
_MOST = {"demand": 2**16 - 1, "capacity": 2**32 - 1}


@dataclass(frozen=True)
class Ranges:
    """Ranges of past orders; None without such a column."""

    demand: Range | None
    capacity: Range | None
    note: str


def fitted(table: Tabular) -> Ranges:
    """Return the ranges of the middle 99 % of demand and capacity in ``table``, one row per order.

    McvrpError if there is neither column, or naming every row without a positive whole number.
    """
    faults, ranges, parts = Faults(table.name), dict[str, Range](), list[str]()
    for name, most in _MOST.items():
        if name in table.frame:
            values = table.whole_numbers(name, 1, most, faults)
            low, high = map(int, np.quantile(values, _QUANTILES, method="inverted_cdf"))
            ranges[name] = low, high
            parts.append(f"{name} {low} to {high} of {values.min()} to {values.max()}")
    if not ranges:
        raise McvrpError(f"{table.name} has neither a column demand nor capacity: add one")
    faults.check()
    note = f"from {len(table):,} past orders: {', '.join(parts)}"
    return Ranges(ranges.get("demand"), ranges.get("capacity"), note)
