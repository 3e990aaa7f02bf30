"""Import of a city from a file of addresses, or of one that extends a city; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from mcvrp.model.city import MARGIN
from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City
from mcvrp.storage.cities import Addresses, StoredCity, joined
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.addresses import AddressTable, address_table
from mcvrp.tasks.city.costs import read_costs
from mcvrp.tasks.city.projection import WIDEST, centred, to_metres
from mcvrp.tasks.city.ranges import Ranges, fitted
from mcvrp.tasks.city.spec import AddressFile, misfit
from mcvrp.tasks.files.cvrplib import is_vrp, read_vrp
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.file_bytes import MOST_BYTES, file_bytes
from mcvrp.tasks.files.tabular import read_tabular

_METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}  # in a unit that addresses in degrees may have
_BYTES = 9  # of a cost in a .npy, and its share of the header
_MOVED = 1.0  # metres, or units of x and y: less is rounding


@dataclass(frozen=True)
class Imported:
    """A city made of a file, with the names of its addresses, and what there is to say about it."""

    city: City
    addresses: Addresses
    notes: tuple[str, ...]


def import_city(store: Store, spec: AddressFile) -> Imported:
    """Return the city of ``spec.file``: its addresses in the file's order, the depot moved to the front.

    An instance of CVRPLIB is a city, too, whose addresses are called as solutions call them: "0", "1", ...
    Degrees become metres by a projection of the city's own (`tasks.city.projection`); the frame of the
    model is the smallest square around all addresses. Several addresses may have the same place.

    Raises
    ------
    McvrpError
        Naming all that is wrong with the file, or with the costs.
    """
    if is_vrp(spec.file):
        return _import_vrp(store, spec)
    if spec.unrounded:
        raise McvrpError(f"{spec.file} is no .vrp, and unrounded is said of one: leave it out")
    table = read_tabular(*file_bytes(store, spec.file))
    read = address_table(table, spec.depot)
    if len(read.ids) < 2:
        raise McvrpError(f"{table.name} has a depot and no customers: add one at least")
    assert read.depot is not None  # `address_table` has refused the file otherwise
    past = fitted(read_tabular(*file_bytes(store, spec.history))) if spec.history else Ranges(None, None, "")
    demand, capacity = spec.demand or past.demand, spec.capacity or past.capacity
    if wrong := misfit(demand, capacity):
        raise McvrpError(wrong)
    order = np.concatenate([[read.depot], np.delete(np.arange(len(read.ids)), read.depot)])
    matrix = _matrix(store, spec, read.ids)
    if matrix is not None:
        matrix = matrix[np.ix_(order, order)]
    ids, places = tuple(read.ids[k] for k in order), read.places[order]
    projection = centred(places) if read.degrees else None
    unit = spec.unit or "m"
    xy = _coordinates(table.name, places, projection, unit, matrix is not None)
    spare = spec.spare_of(len(ids) - 1)
    city = City.framed(xy, matrix, unit=unit, spare=spare, demand=demand, capacity=capacity)
    wide = city.scale * _metres(unit, matrix is not None) / 1000 if projection else 0.0
    if wide > WIDEST:
        raise McvrpError(
            f"{table.name}: the addresses stretch over {wide:,.0f} km, a city is at most {WIDEST:g} km wide: "
            "import each region apart, or give x and y of a projection of yours"
        )
    addresses = Addresses(ids, places if read.degrees else None, projection)
    notes = (*table.notes, *_notes(city), *([past.note] if past.note else []))
    return Imported(city, addresses, notes)


def extend_city(store: Store, parent: StoredCity, spec: AddressFile) -> Imported:
    """Return the city that has the addresses of ``parent`` and, behind them, the new ones of ``spec.file``.

    Addresses of the file that ``parent`` has already have to be where they were, and stay what they
    are. Node numbers, frame, ranges and the scale of kappa are the parent's (`model.problem.City`), so
    that its labels hold, and its models as far as output classes were reserved; ``spec.spare``
    reserves new ones. A matrix has the parent's nodes in their order, then the new addresses in the
    file's, or is a table of pairs.

    Raises
    ------
    McvrpError
        Naming all that is wrong with the file or the costs; if there is no new address, one lies too
        far outside the frame, or too few classes are spare.
    """
    if is_vrp(spec.file):
        raise McvrpError(f"{spec.file} is an instance of CVRPLIB and a city of its own: import it as one")
    table = read_tabular(*file_bytes(store, spec.file))
    read = address_table(table, needs_depot=False)
    before, city = parent.addresses, parent.city
    if read.degrees != (before.lonlat is not None):
        found, made_of = ("lat and lon", "x and y")[:: 1 if read.degrees else -1]
        raise McvrpError(
            f"{table.name} has {found}, city {parent.name!r} was made of {made_of}: give the same"
        )
    xy = _coordinates(table.name, read.places, before.projection, city.unit, city.matrix is not None)
    node = before.nodes(read.ids)
    _check_known(parent, read, xy, node)
    new = np.flatnonzero(node < 0)
    if not len(new):
        raise McvrpError(
            f"{table.name} has no address that city {parent.name!r} has not already: add new ones"
        )
    _check_frame(parent, read, xy, new)
    addresses = joined(before, [read.ids[k] for k in new], read.places[new] if read.degrees else None)
    spare = city.spare - len(new) if spec.spare is None else spec.spare
    if spare < 0:
        raise McvrpError(
            f"{table.name} adds {len(new):,} addresses, city {parent.name!r} has {city.spare:,} spare "
            "classes: add fewer, or reserve new ones by spare (--spare K), after which models have to be "
            "trained anew"
        )
    matrix = _extended_matrix(store, parent, spec, addresses)
    child = City(
        np.vstack([city.xy, xy[new]]),
        matrix,
        city.origin,
        city.scale,
        city.unit,
        extends=(*city.extends, city.customers),
        spare=spare,
        demand=city.demand,
        capacity=city.capacity,
    )
    notes = [*table.notes, f"{len(new):,} new addresses"]
    if len(new) < len(read.ids):
        notes.append(f"{len(read.ids) - len(new):,} rows were in city {parent.name!r} already")
    if child.classes != city.classes:
        notes.append("other output classes than before: models have to be trained anew, labels hold")
    return Imported(child, addresses, tuple(notes))


def _import_vrp(store: Store, spec: AddressFile) -> Imported:
    """Return the city of an instance of CVRPLIB, which says itself what options say of other files."""
    for option in ("depot", "unit", "matrix", "demand", "capacity", "history"):
        if getattr(spec, option) is not None:
            raise McvrpError(
                f"{spec.file} says itself what its {option} is, as every .vrp: leave {option} out"
            )
    read = read_vrp(store, spec.file, unrounded=spec.unrounded)
    customers = read.city.customers
    city = replace(read.city, spare=spec.spare_of(customers))
    return Imported(city, Addresses.numbered(customers), (*read.notes, *_notes(city)))


def _coordinates(
    name: str, places: NDArray[np.float64], projection: str | None, unit: str, has_matrix: bool
) -> NDArray[np.float64]:
    """Return coordinates in the city's unit; beside a matrix, whose unit it is then, in metres."""
    if projection is None:
        return places
    metres = _metres(unit, has_matrix)
    xy = to_metres(projection, places)
    if not np.isfinite(xy).all():
        raise McvrpError(f"{name}: these places are too near to a pole to be projected: give x and y")
    return xy / metres


def _metres(unit: str, has_matrix: bool) -> float:
    if has_matrix:
        return 1.0
    if unit not in _METRES:
        raise McvrpError(
            f"unit {unit!r}: addresses in degrees have costs in m, km or mi: give one of these, x and y, or "
            "a matrix"
        )
    return _METRES[unit]


def _matrix(store: Store, spec: AddressFile, ids: tuple[str, ...]) -> NDArray[np.float64] | None:
    if spec.matrix is None:
        return None
    square = _BYTES * len(ids) ** 2  # which a table of pairs has not, but a matrix
    return read_costs(*file_bytes(store, spec.matrix, max(MOST_BYTES, square)), ids)


def _check_known(
    parent: StoredCity, read: AddressTable, xy: NDArray[np.float64], node: NDArray[np.int64]
) -> None:
    """Raise McvrpError if an address is elsewhere than it was, or another one is the depot."""
    faults = Faults(read.name)
    limit = _MOVED / (_METRES.get(parent.city.unit, 1.0) if parent.addresses.projection else 1.0)
    for k in np.flatnonzero(node >= 0):
        way = xy[k] - parent.city.xy[node[k]]
        if np.abs(way).max() > limit:
            moved = f"{shown(read.ids[k])} was {float(np.hypot(*way)):,.4g} from there"
            faults.at(read.rows[k], f"{moved}: an address keeps its place, give the new one a new id")
    if read.depot is not None and node[read.depot] != DEPOT:
        depot = shown(parent.addresses.ids[DEPOT])
        faults.at(read.rows[read.depot], f"the depot of city {parent.name!r} is {depot}")
    faults.check()


def _check_frame(
    parent: StoredCity, read: AddressTable, xy: NDArray[np.float64], new: NDArray[np.int64]
) -> None:
    city, faults = parent.city, Faults(read.name)
    unit = (xy[new] - np.asarray(city.origin)) / city.scale
    outside = np.maximum(np.maximum(-unit, unit - 1).max(axis=1), 0)
    for k, share in zip(new.tolist(), outside.tolist(), strict=True):
        if share > MARGIN:
            faults.at(
                read.rows[k],
                f"{shown(read.ids[k])} lies {100 * share:,.0f} % of the city's width outside it, "
                f"{100 * MARGIN:g} % is the most: import all addresses as a new city",
            )
    faults.check()


def _extended_matrix(
    store: Store, parent: StoredCity, spec: AddressFile, addresses: Addresses
) -> NDArray[np.float64] | None:
    city = parent.city
    if (city.matrix is None) != (spec.matrix is None):
        with_matrix = "a matrix of costs: give one with the new addresses"
        had = "straight lines" if city.matrix is None else with_matrix
        raise McvrpError(f"city {parent.name!r} has {had}: give the city that extends it the same")
    matrix = _matrix(store, spec, addresses.ids)
    if city.matrix is None or matrix is None:
        return None
    faults, ids = Faults(PurePath(str(spec.matrix)).name), addresses.ids
    changed = np.argwhere(matrix[: len(city.xy), : len(city.xy)] != city.matrix)
    faults.add_all(
        (
            f"the cost from {shown(ids[a])} to {shown(ids[b])} was {city.matrix[a, b]:g}, is "
            f"{matrix[a, b]:g}: labels hold the old one, import a new city"
            for a, b in changed
        ),
        len(changed),
    )
    faults.check()
    return matrix


def _notes(city: City) -> list[str]:
    """Return what is worth knowing of a new city."""
    count = len(city.xy) - len(np.unique(city.xy, axis=0))
    return [f"{count:,} addresses share their place with another"] if count else []
