"""Cities in the store: coordinates, ids and costs as Parquet, the rest as a card that is written last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, alternatives, shown
from mcvrp.model.problem import City
from mcvrp.shared_array import shared_array
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.parquet import parquet_batches, read_parquet, write_parquet
from mcvrp.storage.provenance import Parent, Provenance
from mcvrp.storage.store.errors import NoSuchFile, StoreError
from mcvrp.storage.store.store import Store

UNKNOWN = -1  # node of an unknown id
_AGAIN = "delete its folder, and create it again (mcvrp city create, import or extend): labels stay valid"
# Fields of the card that are attributes of the city.
_OF_CITY = ("city_id", "customers", "origin", "scale", "unit", "classes", "demand", "capacity", "extends")
_ROWS = 64  # of a matrix, decoded at once
_CARRIED = "address."  # before the title of a further column of the file of addresses

Source = Literal["synthetic", "imported"]
DateOrder = Literal["day-first", "month-first"]  # of dates such as 02/11/2026


@dataclass(frozen=True, eq=False)
class Addresses:
    """Addresses of the nodes of a city, the depot first.

    ``further`` are the other columns of their file as text, by title: names, streets, phone numbers.
    ``columns`` are the names that columns have in the files of this city, by field ("id": "Code client"),
    ``dates`` the order of day and month in their dates, None if it is unknown.
    """

    ids: tuple[str, ...]  # of nodes 0 to m
    lonlat: NDArray[np.float64] | None = None  # (m + 1, 2), longitudes and latitudes in degrees (WGS 84)
    projection: str | None = None  # PROJ string, from degrees to the city's coordinates
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # each of m + 1 texts
    columns: Mapping[str, str] = field(default_factory=dict)
    dates: DateOrder | None = None

    @classmethod
    def numbered(cls, customers: int) -> Addresses:
        """Return addresses with the node numbers as ids: "0", "1", ..."""
        return cls(tuple(map(str, range(customers + 1))))

    @cached_property
    def node_of(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self.ids)}

    def nodes(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the node of each of ``ids``, `UNKNOWN` without one."""
        return np.array([self.node_of.get(name, UNKNOWN) for name in ids], dtype=np.int64)

    def names(self, nodes: Iterable[int]) -> list[str]:
        """Return the id of each of ``nodes``."""
        return [self.ids[node] for node in nodes]

    def extended(
        self,
        ids: Sequence[str],
        lonlat: NDArray[np.float64] | None,
        further: Mapping[str, Sequence[str]] | None = None,
    ) -> Addresses:
        """Return these addresses, followed by more of them; titles are equal in any case."""
        both = None if self.lonlat is None or lonlat is None else np.vstack([self.lonlat, lonlat])
        old, new = ("",) * len(self.ids), ("",) * len(ids)
        spelled = {title.casefold(): title for title in self.further}
        more = {spelled.get(title.casefold(), title): texts for title, texts in (further or {}).items()}
        titles = dict.fromkeys([*self.further, *more])
        texts = {title: (*self.further.get(title, old), *more.get(title, new)) for title in titles}
        return replace(self, ids=(*self.ids, *ids), lonlat=both, further=texts)


@dataclass(frozen=True, kw_only=True)
class RoadFacts:
    """Where the costs of a city that are those of roads come from."""

    source: str  # address of an OSRM server, or name of an extract
    by: Literal["time", "distance"]
    profile: str | None = None  # of an extract: "car", or the name of a .lua file with its checksum
    extract: str | None = None  # its SHA-256
    snap: float  # largest distance of an address to its road in metres
    # longitude and latitude of the addresses that were too far from any road or cut off, by id
    left_out: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """By what, along whose roads and with what profile costs are: "time, Helsinki.osm.pbf, car"."""
        extract = f" ({self.extract[:8]})" if self.extract else ""
        return ", ".join(filter(None, (self.by, f"{self.source}{extract}", self.profile)))


@dataclass(frozen=True)
class StoredCity:
    name: str
    city: City
    addresses: Addresses
    source: Source
    provenance: Provenance | None = None
    roads: RoadFacts | None = None


@dataclass(frozen=True, kw_only=True)
class CityCard:
    """Card of a city: everything that is not in its Parquet files.

    ``parent`` is the id of the city that it extends, ``extends`` the numbers of customers of all ancestors.
    """

    city_id: str
    customers: int
    origin: tuple[float, float]
    scale: float
    unit: str
    matrix: bool
    source: Source = "synthetic"
    classes: int | None = None
    demand: tuple[int, int] | None = None
    capacity: tuple[int, int] | None = None
    projection: str | None = None
    parent: str | None = None
    extends: tuple[int, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    dates: DateOrder | None = None
    provenance: Provenance | None = None
    roads: RoadFacts | None = None


def save_city(
    store: Store,
    name: str,
    city: City,
    addresses: Addresses | None = None,
    provenance: Provenance | None = None,
    roads: RoadFacts | None = None,
) -> None:
    """Write ``city`` as ``name``, replacing an existing one; ``addresses`` are None for a synthetic city."""
    columns = {"x": city.xy[:, 0], "y": city.xy[:, 1]}
    if addresses is not None:
        columns["id"] = pa.array(addresses.ids, pa.string())
        if addresses.lonlat is not None:
            columns |= {"lon": addresses.lonlat[:, 0], "lat": addresses.lonlat[:, 1]}
        for title, texts in addresses.further.items():
            columns[_CARRIED + title] = pa.array(texts, pa.string())
    write_parquet(store, layout.city_path(name), pa.table(columns))
    if city.matrix is not None:
        rows = pa.FixedSizeListArray.from_arrays(pa.array(city.matrix.ravel()), len(city.matrix))
        write_parquet(store, layout.city_matrix(name), pa.table({"costs": rows}))
    card = CityCard(
        **{name: getattr(city, name) for name in _OF_CITY},
        matrix=city.matrix is not None,
        source="synthetic" if addresses is None else "imported",
        projection=addresses.projection if addresses else None,
        parent=city.ancestors[-1] if city.extends else None,
        columns=addresses.columns if addresses else {},
        dates=addresses.dates if addresses else None,
        provenance=provenance,
        roads=roads,
    )
    store.put_json(layout.city_card(name), asdict(card))  # last: a city without a card does not exist


def has_city(store: Store, name: str) -> bool:
    return store.exists(layout.city_card(name))


def city_names(store: Store) -> list[str]:
    """Return the names of all cities in the store, sorted."""
    return [name for name in store.folders("cities") if has_city(store, name)]


def load_city(store: Store, name: str) -> City:
    """Return the city ``name``; McvrpError without one, or if it is corrupt."""
    return stored_city(store, name).city


def stored_city(store: Store, name: str) -> StoredCity:
    """Return the city ``name`` with its addresses; errors as `load_city`."""
    if not has_city(store, name):
        others = alternatives(name, store.folders("cities"))
        raise McvrpError(
            f"no city {name!r} in {store.url()}{others}: name one that exists, or make it first: a "
            "preset's with mcvrp city create --preset PRESET, yours with mcvrp city import FILE"
        )
    card = read_document(store, layout.city_card(name), CityCard, named="city's card", hint=_AGAIN)
    path, matrix = layout.city_path(name), None
    try:
        table = read_parquet(store, path, named="city", hint=_AGAIN)
        xy = _columns(table, "x", "y")
        lonlat = _columns(table, "lon", "lat") if "lon" in table.column_names else None
        ids = tuple(table["id"].to_pylist()) if "id" in table.column_names else None
        further = {
            name.removeprefix(_CARRIED): tuple(table[name].to_pylist())
            for name in table.column_names
            if name.startswith(_CARRIED)
        }
        if card.matrix:
            path = layout.city_matrix(name)
            matrix = _matrix(store, path, len(xy))
        city = City(
            xy,
            matrix,
            card.origin,
            card.scale,
            card.unit,
            extends=card.extends,
            spare=0 if card.classes is None else card.classes - len(xy),
            demand=card.demand,
            capacity=card.capacity,
            address_ids=ids or (),
        )
    except NoSuchFile as error:
        raise NoSuchFile(f"there is no {store.url(path)}: {_AGAIN}") from error
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise McvrpError(f"{store.url(path)} does not hold a city ({error}): {_AGAIN}") from error
    if city.city_id != card.city_id:  # a file is corrupt, or of another city
        raise McvrpError(
            f"{store.url(path)} holds city {city.city_id}, but its card names {shown(card.city_id)}: {_AGAIN}"
        )
    ids = ids or Addresses.numbered(city.customers).ids
    addresses = Addresses(ids, lonlat, card.projection, further, card.columns, card.dates)
    return StoredCity(name, city, addresses, card.source, card.provenance, card.roads)


def _matrix(store: Store, path: str, nodes: int) -> NDArray[np.float64]:
    """Return the cost matrix of ``nodes`` nodes at ``path``, in memory that other processes can share.

    It is decoded in pieces, as whole it would be in memory twice. ValueError if it has another shape.
    """
    matrix, row = shared_array((nodes, nodes)), 0
    for batch in parquet_batches(store, path, _ROWS, named="cost matrix", hint=_AGAIN):
        costs = batch["costs"]
        matrix[row : row + len(costs)] = costs.flatten().to_numpy().reshape(len(costs), -1)
        row += len(costs)
    if row < nodes:
        raise ValueError(f"its cost matrix has {row} rows for {nodes} nodes")
    matrix.setflags(write=False)
    return matrix


def _columns(table: pa.Table, *names: str) -> NDArray[np.float64]:
    return np.column_stack([table[name].to_numpy() for name in names])


def find_city(store: Store, city_id: str) -> City:
    """Return the city with the content hash ``city_id``, if need be from a city that extends it.

    Its customers' ids are not part of the hash: see `find_cities`. McvrpError if there is no such city.
    """
    for stored in find_cities(store, city_id):
        city = stored.city
        return city if city.city_id == city_id else city.ancestor(city.ancestors.index(city_id))
    raise McvrpError(
        f"no city in {store.url()} has the id {city_id}: create it there (mcvrp city create or import), or "
        "copy it"
    )


def find_cities(store: Store, city_id: str) -> Iterator[StoredCity]:
    """Yield all cities with the content hash ``city_id`` by name, then all that extend it.

    They may differ in the ids of their customers.
    """
    cards = list(_cards(store))
    yield from (stored_city(store, name) for name, card in cards if card.get("city_id") == city_id)
    extended = (stored_city(store, name) for name, card in cards if card.get("extends"))
    yield from (stored for stored in extended if city_id in stored.city.ancestors)


def city_text(store: Store, city_id: str) -> str:
    """Return the city with the hash ``city_id`` for messages: its names in the store, and the hash."""
    names = " or ".join(map(repr, _names_with(store, city_id)))
    return f"{names} ({city_id})" if names else city_id


def require_city(store: Store, city: City, city_id: str, what: str, hint: str) -> None:
    """Raise McvrpError unless ``what``, of the city with the hash ``city_id``, is valid in ``city``.

    That of a city that ``city`` extends is valid: nodes and costs are the same.
    """
    if not city.accepts(city_id):
        raise McvrpError(
            f"{what} of city {city_text(store, city_id)}, not of {city_text(store, city.city_id)}: {hint}"
        )


def city_parent(store: Store, city_id: str) -> Parent | None:
    """Return the first city with the content hash ``city_id`` as the parent of an artifact."""
    return next((Parent(layout.city_dir(name), city_id) for name in _names_with(store, city_id)), None)


def _names_with(store: Store, city_id: str) -> Iterator[str]:
    return (name for name, card in _cards(store) if card.get("city_id") == city_id)


def _cards(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and cards of all cities; unreadable cards are left out."""
    for name in store.folders("cities"):
        try:
            card = store.get_json(layout.city_card(name))
        except StoreError:  # a store that is silent may have the city
            raise
        except McvrpError:
            continue
        if isinstance(card, dict):
            yield name, card
