"""Travel costs of a city from a square .npy file or a table of pairs; all errors are reported together."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import MOST_COST, is_cost
from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import read_tabular

_NUMPY = b"\x93NUMPY"


def read_costs(name: str, data: bytes, ids: Sequence[str]) -> NDArray[np.float64]:
    """Return the travel costs between ``ids``, float64 ``(N, N)``, in their order.

    ``data`` of the file ``name`` is an array in NumPy's format in the order of ``ids``, or a table with the
    columns from, to and cost and a row for each pair of different addresses. McvrpError naming every missing,
    duplicate or unknown pair, and every invalid cost.
    """
    costs = _square(name, data, len(ids)) if data.startswith(_NUMPY) else _pairs(name, data, ids)
    faults = Faults(name)
    wrong = ~is_cost(costs)
    np.fill_diagonal(wrong, np.diag(costs) != 0)
    expected = {True: "not 0", False: f"not a number from 0 to {MOST_COST:g}"}
    for a, b in np.argwhere(wrong):
        cost = f"{costs[a, b]:g}, {expected[bool(a == b)]}"
        faults.add(f"the cost from {shown(ids[a])} to {shown(ids[b])} is {cost}")
    faults.check()
    if len(ids) > 1 and not costs.any():
        raise McvrpError(f"{name} has costs of 0 only: give those of the ways between the addresses")
    return costs


def _square(name: str, data: bytes, count: int) -> NDArray[np.float64]:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # NumPy parses a corrupt header as Python, with any exception
        raise McvrpError(
            f"{name} is not a numeric array ({reason(error)}): write it with numpy.save"
        ) from error
    if array.shape != (count, count):
        shape = " x ".join(map(str, array.shape))
        raise McvrpError(
            f"{name} has the shape {shape}, not {count} x {count}: give one row and column per address, the "
            "depot included"
        )
    if array.dtype.kind not in "fiu":
        raise McvrpError(f"{name} has dtype {array.dtype}, not numbers: save it as float64")
    return array.astype(np.float64, copy=False)


def _pairs(name: str, data: bytes, ids: Sequence[str]) -> NDArray[np.float64]:
    table = read_tabular(name, data)
    if absent := [column for column in ("from", "to", "cost") if column not in table.frame]:
        raise table.lacks(absent[0], "name its columns from, to and cost")
    faults = Faults(name)
    index = {name: k for k, name in enumerate(ids)}
    ends = []
    for column in ("from", "to"):
        names = table.ids(column)
        at = np.array([index.get(end, -1) for end in names.tolist()], dtype=np.int64)
        for k in np.flatnonzero(at < 0):
            faults.at(table.rows[k], f"{column} {shown(names[k])} is not an address of the city")
        ends.append(at)
    values = table.numbers("cost", faults)
    faults.check()
    start, end = ends
    costs = np.full((len(ids), len(ids)), np.nan)
    np.fill_diagonal(costs, 0.0)
    key = start * len(ids) + end  # unique per pair
    _, first = np.unique(key, return_index=True)
    for k in np.setdiff1d(np.arange(len(key)), first):
        faults.at(table.rows[k], f"{shown(ids[start[k]])} to {shown(ids[end[k]])} is a duplicate")
    costs[start, end] = values
    for a, b in np.argwhere(np.isnan(costs)):
        faults.add(f"the cost from {shown(ids[a])} to {shown(ids[b])} is missing")
    faults.check()
    return costs
