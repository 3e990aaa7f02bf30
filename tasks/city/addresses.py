"""Validation of a table of addresses, all errors reported together, and projection of degrees to metres.

The projection is a transverse Mercator one, centred on the city and true to scale along its central meridian.
At x metres to the east or west, lengths are too large by x^2 / 2 R^2 (R: radius of the Earth): 0.0003 % at
15 km, 0.03 % at 150 km, 0.11 % at 300 km, the edge of the widest city.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import nfc
from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses
from mcvrp.tasks.files.file_bytes import LARGEST, Faults
from mcvrp.tasks.files.tabular import NO, YES, Tabular
from mcvrp.tasks.support.text import listed

if TYPE_CHECKING:
    from pyproj import Transformer

_IDS = ("id", "customer_id", "customer")
_LAT, _LON, _DEPOT = ("lat", "latitude"), ("lon", "lng", "long", "longitude"), "depot"
_FIELDS = ("id", "lat", "lon", "x", "y", _DEPOT)
_LONGEST_ID = 100  # characters
_WIDEST = 300.0  # kilometres from the center of all addresses
_CENTRE_DIGITS = 4  # decimals of the centre in degrees, about 10 m
_MILLIMETRES = 3  # decimals of a metre: beyond them versions of PROJ differ, and with them the city's id
_EARTH = 6371.0  # radius in kilometres


@dataclass(frozen=True, eq=False)
class AddressTable:
    """Addresses in the order of their file ``name``."""

    name: str
    ids: tuple[str, ...]
    places: NDArray[np.float64]  # (N, 2): longitude and latitude if ``degrees``, otherwise x and y
    degrees: bool
    depot: int | None  # index of the depot, if any
    rows: NDArray[np.int64]  # row numbers in the file, (N,)
    notes: tuple[str, ...] = ()
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # other columns, by title

    def taking(self, order: NDArray[np.integer[Any]]) -> AddressTable:
        """Return the addresses at ``order``, of which none is marked as the depot."""
        return replace(
            self,
            depot=None,
            ids=tuple(self.ids[k] for k in order),
            places=self.places[order],
            rows=self.rows[order],
            further={title: tuple(texts[k] for k in order) for title, texts in self.further.items()},
        )


def address_table(
    table: Tabular,
    depot: str | None = None,
    *,
    needs_depot: bool = True,
    columns: Mapping[str, str] | None = None,
    needed: Collection[str] = (),
) -> AddressTable:
    """Return the addresses in ``table``; ``depot`` is its id, None if a column ``depot`` marks it.

    ``columns`` and ``needed`` are those of `Tabular.calling`.

    McvrpError naming every invalid row: a missing or duplicate id, a missing or invalid coordinate, a place
    over 300 km from the center of all, a second depot, or with ``needs_depot`` a missing one.
    """
    table = table.calling(columns or {}, [name for name in needed if name in _FIELDS])
    faults = Faults(table.name)
    ids = _ids(table, faults)
    places, degrees = _places(table, faults)
    marked = _depots(table, ids, None if depot is None else nfc(depot), faults, needs_depot)
    faults.check()
    used = (table.column(*names) for names in (_IDS, _LAT, _LON, ("x",), ("y",), (_DEPOT,)))
    own = table.name, tuple(ids), places, degrees, marked, table.rows, table.notes
    return AddressTable(*own, table.others(used))


def _ids(table: Tabular, faults: Faults) -> list[str]:
    column = table.column(*_IDS)
    if column is None:
        raise table.lacks("id", "rename one, or give --columns id=NAME")
    ids = table.ids(column).tolist()
    first: dict[str, int] = {}
    for name, row in zip(ids, table.rows.tolist(), strict=True):
        if not name:
            faults.at(row, "id is missing")
        elif len(name) > _LONGEST_ID or not name.isprintable():
            faults.at(row, f"id {shown(name)} is longer than {_LONGEST_ID} characters or not printable")
        elif name in first:
            faults.at(row, f"id {shown(name)} is a duplicate of row {first[name]}")
        else:
            first[name] = row
    return ids


def _places(table: Tabular, faults: Faults) -> tuple[NDArray[np.float64], bool]:
    """Return the coordinates, ``(N, 2)``, and whether they are degrees: longitude and latitude."""
    lat, lon, x, y = (table.column(*names) for names in (_LAT, _LON, ("x",), ("y",)))
    if lat and lon and (x or y):
        raise McvrpError(f"{table.name} has both lat, lon and x, y: keep one pair of columns")
    if lat and lon:
        places = np.column_stack([table.numbers(each, faults, small=True) for each in (lon, lat)])
        valid = np.all(np.abs(places) <= [180, 90], axis=1)
        for column, values, most in ((lat, places[:, 1], 90), (lon, places[:, 0], 180)):
            for k in np.flatnonzero(np.abs(values) > most):
                faults.at(
                    table.rows[k], f"{table.titles[column]} is {values[k]:g}, not within -{most} to {most}"
                )
        if valid.any():
            distance = kilometres(np.where(valid[:, None], places, 0), np.median(places[valid], axis=0))
            outside = np.flatnonzero(valid & (distance > _WIDEST))
            for k in outside:
                lat_lon = _shown(places[k, ::-1])
                faults.at(table.rows[k], f"{lat_lon} is {distance[k]:,.4g} km away")
            if len(outside):
                hint = "correct them, or import each region separately"
                faults.add(f"addresses over {_WIDEST:g} km from the center of all: {hint}")
        return places, True
    if x and y:
        xy = np.column_stack([table.numbers(x, faults), table.numbers(y, faults)])
        for k in np.flatnonzero((np.abs(xy) > LARGEST).any(axis=1)):
            faults.at(table.rows[k], f"{_shown(xy[k])} is beyond {LARGEST:g}")
        return xy, False
    raise table.lacks("lat and lon, or x and y", "rename some, or give --columns lat=NAME --columns lon=NAME")


def _shown(place: NDArray[np.float64]) -> str:
    return f"({place[0]:g}, {place[1]:g})"


def _depots(table: Tabular, ids: list[str], depot: str | None, faults: Faults, needed: bool) -> int | None:
    column = table.column(_DEPOT)
    cells = table.text(column).tolist() if column else [""] * len(table)
    marks = [mark.lower().removesuffix(".0") for mark in cells]
    marked = [k for k, mark in enumerate(marks) if mark in YES]
    if depot is not None:
        if depot not in ids:
            faults.add(f"depot {shown(depot)} is not an id in the file")
        elif others := [shown(ids[k]) for k in marked if ids[k] != depot]:
            faults.add(
                f"column {table.titles[str(column)]} marks {listed(others)}, but --depot is {shown(depot)}: "
                "omit it, or correct the column"
            )
        return ids.index(depot) if depot in ids else None
    for mark, row in zip(marks, table.rows.tolist(), strict=True):
        if mark not in YES + NO:
            faults.at(row, f"depot is {shown(mark)}, not 1, yes or x (the depot), 0, no or empty")
    if len(marked) > 1:
        rows = listed(int(table.rows[k]) for k in marked)
        faults.add(f"rows {rows} are depots: a city has one depot, import one city for each")
    elif not marked and needed and set(marks) <= {*YES, *NO}:
        faults.add(
            "no row is the depot: mark it with 1 in a column depot, name its column (--columns depot=…), or "
            "pass its id (--depot ID)"
        )
    return marked[0] if len(marked) == 1 else None


def coordinate_unit(city: City, addresses: Addresses | None) -> str:
    """Return the unit of the city's coordinates: that of its costs, unless they come from a matrix."""
    if city.matrix is None:
        return city.unit
    return "m" if addresses is not None and addresses.projection else ""


def centred(lonlat: NDArray[np.float64]) -> str:
    """Return the PROJ string of the projection centred on ``lonlat`` ``(N, 2)``."""
    lon_0, lat_0 = (lonlat.min(axis=0) + lonlat.max(axis=0)) / 2
    return (
        f"+proj=tmerc +lat_0={_coordinate(lat_0)} +lon_0={_coordinate(lon_0)} +k=1 +x_0=0 +y_0=0 "
        "+ellps=WGS84 +units=m +no_defs"
    )


def to_metres(projection: str, lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``lonlat`` ``(N, 2)`` in metres to the east and north, ``(N, 2)``, rounded to millimetres."""
    x, y = _transformer(projection).transform(lonlat[:, 0], lonlat[:, 1])
    return np.round(np.column_stack([x, y]), _MILLIMETRES) + 0.0  # no -0.0


def kilometres(lonlat: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances of ``lonlat`` ``(N, 2)`` from ``centre`` ``(2,)`` on a sphere, ``(N,)``."""
    lon, lat = np.radians(lonlat).T
    lon_0, lat_0 = np.radians(centre)
    half = np.sin((lat - lat_0) / 2) ** 2 + np.cos(lat) * np.cos(lat_0) * np.sin((lon - lon_0) / 2) ** 2
    return 2 * _EARTH * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def _coordinate(value: float) -> str:
    return f"{round(value, _CENTRE_DIGITS) + 0.0:.{_CENTRE_DIGITS}f}"


@lru_cache(maxsize=16)
def _transformer(projection: str) -> Transformer:
    from pyproj import CRS, Transformer  # slow import

    degrees = CRS.from_proj4("+proj=longlat +ellps=WGS84 +no_defs")
    return Transformer.from_crs(degrees, CRS.from_proj4(projection), always_xy=True)
