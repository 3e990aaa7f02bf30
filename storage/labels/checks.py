"""Checks of labels: every row serves its instance, and costs what it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, DEPOT, City
from mcvrp.storage.labels.columns import Columns

_NODE_BITS = 32  # a visit is (row, node) as one number


@dataclass(frozen=True)
class RowFault:
    """A label that is wrong: the ``row`` of its table, its instance ``i`` if known, and what is wrong."""

    row: int
    i: int | None
    what: str


def require_sound(city: City, n: int, columns: Columns) -> None:
    """Check that every row serves its instance, and costs what it says.

    Raises
    ------
    McvrpError
        Naming the first row that does not, what is wrong with it, and the hint.
    """
    if found := row_faults(city, columns):
        raise McvrpError(
            f"the label of instance (n={n}, i={found[0].i}) has {found[0].what}: "
            "remove the file and label again"
        )


def row_faults(city: City, columns: Columns) -> list[RowFault]:
    """Return every row of ``columns`` that does not serve its instance or costs something else, in order.

    Each row has its first fault only: later checks are made of the rows that have passed the earlier.
    """
    found: list[RowFault] = []
    rows = np.arange(len(columns.index))
    for check in (_strangers, _disorder, _service, _loads, _prices):
        wrong = check(city, columns)
        if wrong:
            found += [RowFault(int(rows[r]), int(columns.index[r]), what) for r, what in wrong.items()]
            good = np.ones(len(rows), dtype=np.bool_)
            good[list(wrong)] = False
            rows, columns = rows[good], columns.take(good)
    return sorted(found, key=lambda fault: fault.row)


def _strangers(city: City, columns: Columns) -> dict[int, str]:
    wrong = ((columns.ids <= DEPOT) | (columns.ids > city.customers)).any(axis=1)
    return dict.fromkeys(np.flatnonzero(wrong).tolist(), "a customer that the city has not")


def _disorder(city: City, columns: Columns) -> dict[int, str]:
    wrong = (columns.ids[:, 1:] <= columns.ids[:, :-1]).any(axis=1)
    return dict.fromkeys(np.flatnonzero(wrong).tolist(), "customers that are not distinct and ascending")


def _service(city: City, columns: Columns) -> dict[int, str]:
    asked, served, order = _visits(columns)
    if len(asked) == len(served) and np.array_equal(asked, served[order]):
        return {}
    visits, counts = np.unique(served, return_counts=True)
    off = np.union1d(np.setxor1d(asked, visits), visits[counts > 1])
    rows, first = np.unique(off >> _NODE_BITS, return_index=True)
    nodes = off[first] & (2**_NODE_BITS - 1)
    return {
        int(row): f"routes that do not serve customer {node} exactly once"
        for row, node in zip(rows, nodes, strict=True)
    }


def _loads(city: City, columns: Columns) -> dict[int, str]:
    _, served, order = _visits(columns)
    demand = np.empty(len(served), dtype=np.int64)
    demand[order] = columns.demands.ravel()
    loads = np.bincount(columns.route_of, demand, minlength=len(columns.row_of))
    over = loads > columns.capacities[columns.row_of]
    return dict.fromkeys(columns.row_of[over].tolist(), "a route that carries more than a vehicle holds")


def _prices(city: City, columns: Columns) -> dict[int, str]:
    if not len(columns.index):
        return {}
    paths, offsets = columns.paths()
    legs = city.legs(paths)
    legs[offsets[1:-1] - 1] = 0.0  # from the last depot of a row to the first of the next
    costs = np.add.reduceat(legs, offsets[:-1])
    wrong = ~np.isclose(columns.costs, costs, rtol=COST_TOLERANCE, atol=COST_TOLERANCE)
    return {
        int(row): f"cost {float(columns.costs[row])!r} where its routes cost {float(costs[row])!r}"
        for row in np.flatnonzero(wrong)
    }


def _visits(columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the visits that are asked, those that are made, and the order that sorts the latter."""
    asked = (np.arange(len(columns.ids))[:, None] << _NODE_BITS) + columns.ids
    served = (columns.row_of[columns.route_of] << _NODE_BITS) + columns.nodes
    return asked.ravel(), served, np.argsort(served, kind="stable")
