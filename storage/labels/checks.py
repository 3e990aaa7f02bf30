"""Checks of labels: every row is a feasible solution of its instance at its cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, DEPOT, City
from mcvrp.storage.labels.arrays import LabelArrays

_NODE_BITS = 32  # a visit is encoded as row << 32 | node


@dataclass(frozen=True)
class RowFault:
    """A wrong label: index ``i`` of its instance, and what is wrong."""

    i: int
    what: str


def require_sound(city: City, n: int, labels: LabelArrays) -> None:
    """Raise McvrpError for the first of ``labels`` that is infeasible or has another cost."""
    if faults := row_faults(city, labels):
        raise McvrpError(
            f"the label of instance (n={n}, i={faults[0].i}) has {faults[0].what}: "
            "remove the file and label again"
        )


def row_faults(city: City, labels: LabelArrays) -> list[RowFault]:
    """Return rows of ``labels`` that are infeasible or of another cost, [] if none is.

    A check relies on what those before it assert: these are the rows that fail the first that any row fails.
    """
    for check in (_wrong_customers, _unserved_customers, _overloads, _wrong_costs):
        if wrong := check(city, labels):
            return [RowFault(int(labels.index[row]), wrong[row]) for row in sorted(wrong)]
    return []


def _wrong_customers(city: City, labels: LabelArrays) -> dict[int, str]:
    unknown = np.any((labels.ids <= DEPOT) | (labels.ids > city.customers), axis=1)
    unordered = np.any(labels.ids[:, 1:] <= labels.ids[:, :-1], axis=1)
    return {
        int(row): "a customer that is not in the city"
        if unknown[row]
        else "customers that are not distinct and ascending"
        for row in np.flatnonzero(unknown | unordered)
    }


def _unserved_customers(city: City, labels: LabelArrays) -> dict[int, str]:
    required, served, order = _visits(labels)
    if len(required) == len(served) and np.array_equal(required, served[order]):
        return {}
    visits, counts = np.unique(served, return_counts=True)
    off = np.union1d(np.setxor1d(required, visits), visits[counts > 1])
    rows = np.unique(off >> _NODE_BITS)
    return dict.fromkeys(rows.tolist(), "routes that do not serve each customer exactly once")


def _overloads(city: City, labels: LabelArrays) -> dict[int, str]:
    _, served, order = _visits(labels)
    demand = np.empty(len(served), dtype=np.int64)
    demand[order] = labels.demands.ravel()
    loads = np.bincount(labels.route_of, demand, minlength=len(labels.row_of))
    over = loads > labels.capacities[labels.row_of]
    return dict.fromkeys(labels.row_of[over].tolist(), "a route whose load exceeds the capacity")


def _wrong_costs(city: City, labels: LabelArrays) -> dict[int, str]:
    if not len(labels):
        return {}
    legs = city.legs(labels.paths)
    legs[labels.offsets[1:-1] - 1] = 0.0  # from the last depot of a row to the first of the next row
    costs = np.add.reduceat(legs, labels.offsets[:-1])
    wrong = ~np.isclose(labels.costs, costs, rtol=COST_TOLERANCE, atol=COST_TOLERANCE)
    return {
        int(row): f"cost {float(labels.costs[row])!r}, but its routes cost {float(costs[row])!r}"
        for row in np.flatnonzero(wrong)
    }


def _visits(labels: LabelArrays) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the required visits, the visits of the routes, and the order that sorts the latter."""
    required = (np.arange(len(labels))[:, None] << _NODE_BITS) + labels.ids
    served = (labels.row_of[labels.route_of] << _NODE_BITS) + labels.nodes
    return required.ravel(), served, np.argsort(served, kind="stable")
