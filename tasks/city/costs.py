"""A city's travel costs as people bring them: a square .npy, or a table of pairs; checked all at once."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import MOST_COST, is_cost
from mcvrp.model.errors import McvrpError, reason, shown
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.tabular import read_tabular

_NUMPY = b"\x93NUMPY"


def read_costs(name: str, data: bytes, ids: Sequence[str]) -> NDArray[np.float64]:
    """Return the travel cost from each of ``ids`` to each, float64 ``(N, N)``, in their order.

    Parameters
    ----------
    data
        The bytes of the file ``name``: NumPy's format with one row and column an address, in the
        order of ``ids``, or a table with columns from, to and cost, with all pairs of two addresses.

    Raises
    ------
    McvrpError
        Naming every pair that is missing, twice, of an address that is not there, or no cost.
    """
    costs = _square(name, data, len(ids)) if data.startswith(_NUMPY) else _pairs(name, data, ids)
    faults = Faults(name)
    wrong = ~is_cost(costs)
    np.fill_diagonal(wrong, np.diag(costs) != 0)
    expected = {True: "it has to be 0", False: f"it has to be a number from 0 up to {MOST_COST:g}"}
    places = np.argwhere(wrong)
    faults.add_all(
        (
            f"the cost from {shown(ids[a])} to {shown(ids[b])} is {costs[a, b]:g}: {expected[bool(a == b)]}"
            for a, b in places
        ),
        len(places),
    )
    faults.check()
    return costs


def _square(name: str, data: bytes, count: int) -> NDArray[np.float64]:
    try:
        found = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # a corrupt header is parsed as Python, which may say anything
        raise McvrpError(
            f"{name} is no array of numbers ({reason(error)}): write it with numpy.save"
        ) from error
    if found.shape != (count, count):
        shape = " x ".join(map(str, found.shape))
        raise McvrpError(
            f"{name} is {shape}, {count} addresses with the depot need {count} x {count}: give one like that"
        )
    if found.dtype.kind not in "fiu":
        raise McvrpError(f"{name} holds {found.dtype}, not numbers: save it as float64")
    return found.astype(np.float64)


def _pairs(name: str, data: bytes, ids: Sequence[str]) -> NDArray[np.float64]:
    table = read_tabular(name, data)
    absent = [column for column in ("from", "to", "cost") if column not in table.frame]
    if absent:
        raise McvrpError(f"{name} has no column {absent[0]}: name the columns of costs from, to and cost")
    faults = Faults(name)
    place = {name: k for k, name in enumerate(ids)}
    ends = []
    for column in ("from", "to"):
        names = table.text(column)
        at = np.array([place.get(end, -1) for end in names.tolist()], dtype=np.int64)
        for k in np.flatnonzero(at < 0):
            faults.at(table.rows[k], f"{column} {shown(names[k])} is no address of the city")
        ends.append(at)
    values = table.numbers("cost", faults)
    faults.check()
    start, end = ends
    costs = np.full((len(ids), len(ids)), np.nan)
    np.fill_diagonal(costs, 0.0)
    key = start * len(ids) + end  # of a pair: each may be there once
    _, first = np.unique(key, return_index=True)
    for k in np.setdiff1d(np.arange(len(key)), first):
        faults.at(table.rows[k], f"{shown(ids[start[k]])} to {shown(ids[end[k]])} is there already")
    costs[start, end] = values
    missing = np.argwhere(np.isnan(costs))
    faults.add_all(
        (f"the cost from {shown(ids[a])} to {shown(ids[b])} is missing" for a, b in missing), len(missing)
    )
    faults.check()
    return costs
