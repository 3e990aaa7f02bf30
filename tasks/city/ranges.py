"""Ranges of demand and capacity from past orders, as people keep them: what future orders are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.tabular import Tabular

_SHARE = (0.005, 0.995)  # of the past that a range holds: a mistyped order does not widen it
_MOST = {"demand": 2**16 - 1, "capacity": 2**32 - 1}


@dataclass(frozen=True)
class Ranges:
    """Ranges of past orders; None where they have no such column."""

    demand: Range | None
    capacity: Range | None
    note: str


def fitted(table: Tabular) -> Ranges:
    """Return the ranges of the columns demand and capacity of ``table``, a row an order.

    A range holds the middle 99 % of the past.

    Raises
    ------
    McvrpError
        If there is neither column; naming every row without a whole number from 1 up.
    """
    faults, found = Faults(table.name), {}
    for name in ("demand", "capacity"):
        if name not in table.frame:
            continue
        found[name] = table.whole_numbers(name, 1, _MOST[name], faults)
    if not found:
        raise McvrpError(f"{table.name} has no column demand and none capacity to take ranges from: add one")
    faults.check()
    ranges = {name: _range(values) for name, values in found.items()}
    parts = (
        f"{name} {low} to {high} of {int(found[name].min())} to {int(found[name].max())}"
        for name, (low, high) in ranges.items()
    )
    note = f"from {len(table):,} past orders: {', '.join(parts)}"
    return Ranges(ranges.get("demand"), ranges.get("capacity"), note)


def _range(values: NDArray[np.int64]) -> Range:
    low, high = np.quantile(values, _SHARE, method="inverted_cdf")
    return int(low), int(high)
