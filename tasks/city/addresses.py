"""Addresses as a file has them, checked: ids, places, the depot; all that is wrong is told at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.errors import shown
from mcvrp.tasks.city.projection import WIDEST, kilometres, median_place
from mcvrp.tasks.files.faults import LARGEST, Faults
from mcvrp.tasks.files.tabular import Tabular
from mcvrp.tasks.support.text import listed

_IDS = ("id", "customer_id", "customer")
_LAT, _LON = ("lat", "latitude"), ("lon", "lng", "long", "longitude")
_TRUE, _FALSE = ("1", "true", "yes"), ("", "0", "false", "no")
_LONGEST_ID = 100  # characters
_NEAR = 0.5  # of the widest: how near a row comes when lat and lon are exchanged, to be told so


@dataclass(frozen=True, eq=False)
class AddressTable:
    """Addresses in the order of their file.

    Parameters
    ----------
    ids
        What people call them.
    places
        Longitude and latitude in degrees, or x and y, float64 ``(N, 2)``.
    degrees
        Which of the two.
    depot
        Where the depot stands among them; None where none is marked.
    rows
        Their rows in the file, int64 ``(N,)``.
    """

    name: str
    ids: tuple[str, ...]
    places: NDArray[np.float64]
    degrees: bool
    depot: int | None
    rows: NDArray[np.int64]


def address_table(table: Tabular, depot: str | None = None, *, needs_depot: bool = True) -> AddressTable:
    """Return the addresses in ``table``.

    Parameters
    ----------
    depot
        Id of the depot; None where a column ``depot`` marks it.
    needs_depot
        Whether there has to be one.

    Raises
    ------
    McvrpError
        Naming every row that is wrong: without id, with one that is there already, with a
        coordinate that is missing, no number or out of range, far from all others; a depot too
        many or too few.
    """
    faults = Faults(table.name)
    ids = _ids(table, faults)
    places, degrees = _places(table, faults)
    marked = _depots(table, ids, depot, faults, needs_depot)
    faults.check()
    return AddressTable(table.name, tuple(ids), places, degrees, marked, table.rows)


def _ids(table: Tabular, faults: Faults) -> list[str]:
    column = table.column(*_IDS)
    if column is None:
        faults.add(f"there is no column id (there are {listed(table.frame.columns)})")
        return []
    ids = table.text(column).tolist()
    first: dict[str, int] = {}
    for name, row in zip(ids, table.rows.tolist(), strict=True):
        if not name:
            faults.at(row, "id is missing")
        elif len(name) > _LONGEST_ID or not name.isprintable():
            faults.at(row, f"id {shown(name)} is too long or cannot be printed")
        elif name in first:
            faults.at(row, f"id {shown(name)} is that of row {first[name]} already")
        else:
            first[name] = row
    return ids


def _places(table: Tabular, faults: Faults) -> tuple[NDArray[np.float64], bool]:
    lat, lon, x, y = (table.column(*names) for names in (_LAT, _LON, ("x",), ("y",)))
    if lat and lon and (x or y):
        faults.add("there are columns lat, lon and x, y: keep the ones that are to be used")
    elif lat and lon:
        return _degrees(table, lat, lon, faults), True
    elif x and y:
        xy = np.column_stack([table.numbers(x, faults), table.numbers(y, faults)])
        for k in np.flatnonzero((np.abs(xy) > LARGEST).any(axis=1)):
            faults.at(table.rows[k], f"({xy[k, 0]:g}, {xy[k, 1]:g}) is beyond {LARGEST:g}")
        return xy, False
    else:
        there = listed(table.frame.columns, most=8)
        faults.add(f"there are no columns lat and lon, or x and y (there are {there})")
    return np.zeros((len(table), 2)), False


def _degrees(table: Tabular, lat: str, lon: str, faults: Faults) -> NDArray[np.float64]:
    places = np.column_stack([table.numbers(lon, faults), table.numbers(lat, faults)])
    known = np.isfinite(places[:, 0]) & np.isfinite(places[:, 1])
    beyond = np.greater(np.abs(places), np.array([180, 90]))
    # more than half of the rows: the columns are exchanged, and not a few cells mistyped
    if 2 * beyond[known, 1].sum() > known.sum() and (np.abs(places[known, 0]) <= 90).all():
        faults.add("lat and lon look swapped: lat goes from -90 to 90 and most rows are beyond")
        return places
    for k in np.flatnonzero(known & beyond.any(axis=1)):
        name, value = (lat, places[k, 1]) if beyond[k, 1] else (lon, places[k, 0])
        swapped = " (swapped with lon?)" if beyond[k, 1] and abs(places[k, 1]) <= 180 else ""
        bound = 90 if beyond[k, 1] else 180
        faults.at(table.rows[k], f"{name} {value:g} is not within -{bound} to {bound}{swapped}")
    sound = known & ~(beyond[:, 0] | beyond[:, 1])
    if sound.any():
        _tell_far_ones(table, places, sound, faults)
    return places


def _tell_far_ones(
    table: Tabular, places: NDArray[np.float64], sound: NDArray[np.bool_], faults: Faults
) -> None:
    """Tell the rows that lie further from the middle of all than a city is wide."""
    middle = median_place(places[sound])
    distance = kilometres(places, middle)
    exchanged = kilometres(
        np.where(np.abs(places[:, ::-1]) <= np.array([180, 90]), places[:, ::-1], 0), middle
    )
    for k in np.flatnonzero(sound & (distance > WIDEST)):
        lon, lat = places[k]
        if exchanged[k] < _NEAR * WIDEST:
            why = "lat and lon look swapped"
        elif lon == 0 and lat == 0:
            why = "0, 0 is what geocoders say when they found nothing"
        else:
            why = f"a city is at most {WIDEST:g} km wide"
        where = f"({lat:g}, {lon:g}) lies {distance[k]:,.0f} km from the middle of the others"
        faults.at(table.rows[k], f"{where}: {why}")


def _depots(table: Tabular, ids: list[str], depot: str | None, faults: Faults, needed: bool) -> int | None:
    column = table.column("depot")
    if depot is not None:
        if depot not in ids and ids:
            faults.add(f"the depot {shown(depot)} is no id of the file")
        return ids.index(depot) if depot in ids else None
    if column is None:
        if needed:
            faults.add(
                "no row is the depot: mark one by 1 in a column depot, or give its id as depot (--depot ID)"
            )
        return None
    marks = [mark.lower().removesuffix(".0") for mark in table.text(column).tolist()]
    for mark, row in zip(marks, table.rows.tolist(), strict=True):
        if mark not in _TRUE + _FALSE:
            faults.at(row, f"depot is {shown(mark)}: write 1 for the depot, 0 or nothing else")
    marked = [k for k, mark in enumerate(marks) if mark in _TRUE]
    if len(marked) > 1:
        rows = listed(int(table.rows[k]) for k in marked)
        faults.add(f"rows {rows} are depots: a city has one, import one city for each")
    elif not marked and needed:
        faults.add("no row is the depot: mark one by 1 in column depot, or give its id as depot (--depot ID)")
    return marked[0] if len(marked) == 1 else None
