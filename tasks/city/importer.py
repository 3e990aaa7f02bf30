"""Import of a city, or of the extension of a city, from a file of addresses; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import MARGIN
from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City
from mcvrp.storage.cities import UNKNOWN, Addresses, StoredCity
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.addresses import AddressTable, address_table, centred, coordinate_unit, to_metres
from mcvrp.tasks.city.costs import read_costs
from mcvrp.tasks.city.roads import UNITS, OnRoads, on_roads
from mcvrp.tasks.city.spec import AddressFile, PlannedCity, RoadsSpec
from mcvrp.tasks.files.cvrplib import is_vrp, read_vrp
from mcvrp.tasks.files.file_bytes import MOST_BYTES, Faults, file_bytes
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.support.text import METRES, counted, length_text, listed, times_of_day

_BYTES = 9  # per cost in a .npy, with a share of its header
# smaller differences are rounding: metres, or units of x and y, for which also a share of the city's width
_MOVED, _MOVED_SHARE = 1.0, 1e-4
_FAR, _MOST = 5.0, 0.75  # far: so many times as far away as this share of all addresses


def import_city(
    store: Store, spec: AddressFile, cache: Path | None = None, stored: StoredCity | None = None
) -> PlannedCity:
    """Return the city of ``spec.file``: the depot, then the other addresses in the file's order.

    An instance of CVRPLIB is a city, too, with the ids of solutions: "0", "1", ... Degrees are projected to
    metres (`tasks.city.addresses`); the frame of the model is the smallest square around all addresses.
    Addresses may have the same coordinates. ``cache`` and ``stored`` are those of `on_roads`. McvrpError
    naming everything that is wrong with the file, or with the costs.
    """
    if is_vrp(spec.file):
        return _import_vrp(store, spec)
    if spec.unrounded:
        raise McvrpError(f"{spec.file} is not a .vrp file, for which unrounded is meant: leave it out")
    table = read_tabular(*file_bytes(store, spec.file), spec.sheet)
    read = address_table(table, spec.depot, columns=spec.columns, needed=spec.columns)
    assert read.depot is not None  # checked by `address_table`
    order = np.concatenate([[read.depot], np.delete(np.arange(len(read.ids)), read.depot)])
    matrix, roads, unit = _matrix(store, spec, read.ids), None, spec.unit or "m"
    if matrix is not None:
        matrix = matrix[np.ix_(order, order)]
    read = read.taking(order)
    if spec.roads:
        roads = on_roads(read, spec.roads, cache, None, stored)
        read, matrix, unit = roads.read, roads.costs, UNITS[roads.facts.by]
    if len(read.ids) < 2:
        raise McvrpError(f"{read.name} has a depot and no customers: add at least one")
    projection = centred(read.places) if read.degrees else None
    spare = spec.spare_of(len(read.ids) - 1)
    xy = _coordinates(read.name, read.places, projection, unit, matrix is not None)
    city = City.framed(xy, matrix, unit=unit, spare=spare, demand=spec.demand, capacity=spec.capacity)
    lonlat = read.places if read.degrees else None
    addresses = Addresses(read.ids, lonlat, projection, read.further, spec.columns, spec.dates)
    notes = (*read.notes, *_notes(city), *_far(city, addresses), *times_of_day(read.further))
    return _planned(city, addresses, notes, roads)


def extend_city(
    store: Store,
    parent: StoredCity,
    spec: AddressFile,
    cache: Path | None = None,
    stored: StoredCity | None = None,
) -> PlannedCity:
    """Return the city with the addresses of ``parent``, followed by the new ones of ``spec.file``.

    Addresses of ``parent`` in the file must not have moved. Node numbers, frame, ranges and the scale of
    kappa are inherited (`model.city.City`): labels of the parent stay valid, and so do its models as long as
    output classes are spare; ``spec.spare`` reserves new ones. Names of columns that the parent has stay,
    those of ``spec`` are for its file. A matrix has the parent's nodes in their order and then the new
    addresses in the file's, or is a table of pairs; costs along roads are those of the same roads
    (`on_roads`). McvrpError as in `import_city`, or if no address is new, one is too far outside of the
    frame, or too few classes are spare.
    """
    read, xy = _read_extension(store, parent, spec)
    old, city, node = parent.addresses, parent.city, parent.addresses.nodes(read.ids)
    _check_places(parent, read, xy, node)
    known, new = int(np.sum(node != UNKNOWN)), read.taking(np.flatnonzero(node == UNKNOWN))
    if not new.ids:
        raise McvrpError(f"{read.name} has no address that is new to city {parent.name!r}: add new addresses")
    roads = _extended_roads(parent, spec, new, cache, stored)
    new = roads.read if roads else new
    named = replace(old, columns={**spec.columns, **old.columns}, dates=spec.dates or old.dates)
    addresses = named.extended(new.ids, new.places if read.degrees else None, new.further)
    spare = city.spare - len(new.ids) if spec.spare is None else spec.spare
    if spare < 0:
        raise McvrpError(
            f"{read.name} adds {len(new.ids):,} addresses, but city {parent.name!r} has {city.spare:,} spare "
            "output classes: add fewer, or reserve new classes (--spare K) and retrain the models"
        )
    xy = _coordinates(read.name, new.places, parent.addresses.projection, city.unit, city.matrix is not None)
    child = City(
        np.vstack([city.xy, xy]),
        roads.costs if roads else _extended_matrix(store, parent, spec, addresses),
        city.origin,
        city.scale,
        city.unit,
        extends=(*city.extends, city.customers),
        spare=spare,
        demand=city.demand,
        capacity=city.capacity,
    )
    count = "1 new address" if len(new.ids) == 1 else f"{len(new.ids):,} new addresses"
    notes = [*read.notes, count, *times_of_day(new.further)]
    if known:
        notes.append(f"{known:,} rows are already in city {parent.name!r}")
    if child.classes != city.classes:
        notes.append("the number of output classes has changed: retrain models, labels stay valid")
    return _planned(child, addresses, tuple(notes), roads)


def _planned(city: City, addresses: Addresses, notes: tuple[str, ...], roads: OnRoads | None) -> PlannedCity:
    if roads is None:
        return PlannedCity(city, addresses, notes=notes)
    return PlannedCity(city, addresses, roads.facts, (*notes, *roads.notes))


def _read_extension(
    store: Store, parent: StoredCity, spec: AddressFile
) -> tuple[AddressTable, NDArray[np.float64]]:
    """Return the addresses of ``spec.file`` and their coordinates in the frame of ``parent``, ``(N, 2)``."""
    if is_vrp(spec.file):
        raise McvrpError(
            f"{spec.file} is an instance of CVRPLIB, which cannot extend a city: import it alone"
        )
    table = read_tabular(*file_bytes(store, spec.file), spec.sheet)
    own = {**parent.addresses.columns, **spec.columns}
    read = address_table(table, needs_depot=False, columns=own, needed=spec.columns)
    if read.degrees != (parent.addresses.lonlat is not None):
        columns, expected = ("lat and lon", "x and y")[:: 1 if read.degrees else -1]
        raise McvrpError(
            f"{read.name} has {columns}, but city {parent.name!r} has {expected}: give {expected}"
        )
    city, projection = parent.city, parent.addresses.projection
    return read, _coordinates(read.name, read.places, projection, city.unit, city.matrix is not None)


def _import_vrp(store: Store, spec: AddressFile) -> PlannedCity:
    tables = "depot", "unit", "matrix", "roads", "demand", "capacity", "columns", "dates", "sheet"
    for option in tables:
        if getattr(spec, option):
            raise McvrpError(f"{spec.file} defines its own {option}, as every .vrp: leave {option} out")
    vrp = read_vrp(store, spec.file, unrounded=spec.unrounded)
    customers = vrp.city.customers
    city = replace(vrp.city, spare=spec.spare_of(customers))
    return PlannedCity(city, Addresses.numbered(customers), notes=(*vrp.notes, *_notes(city)))


def _coordinates(
    name: str, places: NDArray[np.float64], projection: str | None, unit: str, has_matrix: bool
) -> NDArray[np.float64]:
    """Return coordinates in the city's unit, or in metres if that is the unit of a matrix."""
    if projection is None:
        return places
    metres = _metres(unit, has_matrix)
    xy = to_metres(projection, places)
    if not np.isfinite(xy).all():
        raise McvrpError(f"{name}: the addresses are too close to a pole to be projected: give x and y")
    return xy / metres


def _metres(unit: str, has_matrix: bool) -> float:
    if has_matrix:
        return 1.0
    if unit not in METRES:
        raise McvrpError(
            f"unit {unit!r}: addresses in degrees have costs in m, km or mi: give one of these, x and y, or "
            "a matrix"
        )
    return METRES[unit]


def _matrix(store: Store, spec: AddressFile, ids: tuple[str, ...]) -> NDArray[np.float64] | None:
    if spec.matrix is None:
        return None
    square = _BYTES * len(ids) ** 2  # a .npy of many addresses is larger than any table
    return read_costs(*file_bytes(store, spec.matrix, max(MOST_BYTES, square)), ids)


def _check_places(
    parent: StoredCity, read: AddressTable, xy: NDArray[np.float64], node: NDArray[np.int64]
) -> None:
    """Raise McvrpError for addresses that moved, for another depot, and for new ones too far outside."""
    city, faults, unit = parent.city, Faults(read.name), coordinate_unit(parent.city, parent.addresses)
    if parent.addresses.projection:
        limit = _MOVED / _metres(city.unit, city.matrix is not None)
    else:
        limit = min(_MOVED, _MOVED_SHARE * city.scale)
    for k in np.flatnonzero(node != UNKNOWN):
        way = xy[k] - city.xy[node[k]]
        if np.abs(way).max() > limit:
            length = length_text(float(np.hypot(*way)), unit).strip()
            moved = f"{shown(read.ids[k])} has moved by {length}"
            faults.at(read.rows[k], f"{moved}: an address keeps its place, give the new place a new id")
    if read.depot is not None and node[read.depot] != DEPOT:
        depot = shown(parent.addresses.ids[DEPOT])
        faults.at(read.rows[read.depot], f"the depot of city {parent.name!r} is {depot}")
    unit = (xy - np.asarray(city.origin)) / city.scale
    outside = np.maximum(-unit, unit - 1).max(axis=1)
    for k in np.flatnonzero((node == UNKNOWN) & (outside > MARGIN)):
        faults.at(
            read.rows[k],
            f"{shown(read.ids[k])} is outside of the city by {100 * outside[k]:,.0f} % of its width (limit: "
            f"{100 * MARGIN:g} %): import all addresses as a new city",
        )
    faults.check()


def _extended_roads(
    parent: StoredCity, spec: AddressFile, new: AddressTable, cache: Path | None, stored: StoredCity | None
) -> OnRoads | None:
    """Return the costs of the extended city, None if its costs are not along roads."""
    if (facts := parent.roads) is None:
        if spec.roads:
            raise McvrpError(f"the costs of city {parent.name!r} are not along roads: leave the roads out")
        return None
    if spec.matrix:
        raise McvrpError(f"the costs of city {parent.name!r} are along roads: leave the matrix out")
    if spec.roads is None and facts.extract:
        raise McvrpError(
            f"the costs of city {parent.name!r} are along the roads of {facts.source}: give that extract "
            "(--roads FILE)"
        )
    return on_roads(new, spec.roads or RoadsSpec(source=facts.source), cache, parent, stored)


def _extended_matrix(
    store: Store, parent: StoredCity, spec: AddressFile, addresses: Addresses
) -> NDArray[np.float64] | None:
    city = parent.city
    if city.matrix is None and spec.matrix is not None:
        raise McvrpError(f"city {parent.name!r} has straight-line costs: leave the matrix out")
    matrix = _matrix(store, spec, addresses.ids)
    if city.matrix is None:
        return None
    if matrix is None:
        raise McvrpError(
            f"city {parent.name!r} has a cost matrix: give one with the new addresses (--matrix FILE)"
        )
    faults, ids = Faults(PurePath(str(spec.matrix)).name), addresses.ids
    for a, b in np.argwhere(matrix[: len(city.xy), : len(city.xy)] != city.matrix):
        faults.add(
            f"the cost from {shown(ids[a])} to {shown(ids[b])} was {city.matrix[a, b]:g}, is "
            f"{matrix[a, b]:g}: the costs of labels would change, import a new city"
        )
    faults.check()
    return matrix


def _far(city: City, addresses: Addresses) -> list[str]:
    """Return a note on addresses that are far from all others: their coordinates may be mistyped.

    Neither the median of all nor the distance of most of them from it depends on a few such addresses.
    """
    distance = np.hypot(*(city.xy - np.median(city.xy, axis=0)).T)
    usual = float(np.quantile(distance, _MOST, method="inverted_cdf"))
    far = np.flatnonzero((distance > _FAR * usual) & (usual > 0))
    names = listed(shown(addresses.ids[k]) for k in far)
    return [f"far from all others, check the coordinates: {names}"] if names else []


def _notes(city: City) -> list[str]:
    count = len(city.xy) - len(np.unique(city.xy, axis=0))
    return [f"{counted(count, 'row')} with the coordinates of another one"] if count else []
