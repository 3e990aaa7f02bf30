"""Checks of labels: every row is a feasible solution of its instance, in canonical form, at its cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, DEPOT, City, Solution
from mcvrp.storage.labels.arrays import LabelArrays

_TIE = 1e-9  # areas and angles that differ by less are compared by `canonical` itself
_NODE_BITS = 32  # a visit is encoded as row << 32 | node


@dataclass(frozen=True)
class RowFault:
    """A wrong label: ``row`` of its table, index ``i`` of its instance if known, and what is wrong."""

    row: int
    i: int | None
    what: str


def require_sound(city: City, n: int, labels: LabelArrays) -> None:
    """Raise McvrpError for the first of ``labels`` that is infeasible or has another cost."""
    # Not for the form: labels of a city that this one extends may have ties that are rounded otherwise.
    if faults := row_faults(city, labels, form=False):
        raise McvrpError(
            f"the label of instance (n={n}, i={faults[0].i}) has {faults[0].what}: "
            "remove the file and label again"
        )


def row_faults(city: City, labels: LabelArrays, *, form: bool = True) -> list[RowFault]:
    """Return the rows of ``labels`` that are infeasible or of another cost, or not in canonical ``form``."""
    faults: list[RowFault] = []
    rows = np.arange(len(labels))
    checks = [_wrong_customers, _unserved_customers, _overloads, _wrong_costs]
    for check in checks + [_not_canonical] * form:
        wrong = check(city, labels)
        if wrong:
            faults += [RowFault(int(rows[r]), int(labels.index[r]), what) for r, what in wrong.items()]
            good = np.ones(len(rows), dtype=np.bool_)
            good[list(wrong)] = False
            rows, labels = rows[good], labels.take(good)  # later checks rely on what earlier ones assert
    return sorted(faults, key=lambda fault: fault.row)


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


def _not_canonical(city: City, labels: LabelArrays) -> dict[int, str]:
    # Orientation and order are computed for all routes at once, as `canonical` takes most of the time of a
    # verification; only rows that have a route near a tie are compared with `canonical`.
    nodes, routes, rows = labels.nodes, len(labels.row_of), len(labels)
    delta = city.xy[nodes] - city.xy[0]
    lengths = np.bincount(labels.route_of, minlength=routes)
    sums = [np.bincount(labels.route_of, delta[:, axis], minlength=routes) for axis in (0, 1)]
    angle = np.mod(np.arctan2(sums[1], sums[0]), 2 * np.pi)
    doubtful = (lengths == 0) | (angle < _TIE) | (angle > 2 * np.pi - _TIE)
    same_row = np.diff(labels.row_of) == 0
    doubtful[1:] |= same_row & (np.diff(angle) < _TIE)
    if city.symmetric:  # routes of an asymmetric cost matrix are never reversed
        cross = delta[:-1, 0] * delta[1:, 1] - delta[1:, 0] * delta[:-1, 1]
        inside = np.diff(labels.route_of) == 0
        area = np.bincount(labels.route_of[1:][inside], cross[inside], minlength=routes)
        doubtful |= (lengths > 1) & (area < _TIE * city.scale**2)
    wrong = dict[int, str]()
    starts = np.searchsorted(labels.row_of, np.arange(rows + 1))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    for row in np.unique(labels.row_of[doubtful]).tolist():
        stored = tuple(
            tuple(nodes[bounds[k] : bounds[k + 1]].tolist()) for k in range(starts[row], starts[row + 1])
        )
        if canonical(city, Solution.of(stored)).routes != stored:
            wrong[row] = "routes that are not in canonical form"
    return wrong


def _visits(labels: LabelArrays) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the required visits, the visits of the routes, and the order that sorts the latter."""
    required = (np.arange(len(labels))[:, None] << _NODE_BITS) + labels.ids
    served = (labels.row_of[labels.route_of] << _NODE_BITS) + labels.nodes
    return required.ravel(), served, np.argsort(served, kind="stable")
