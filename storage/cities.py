"""Cities in the store: coordinates, names and costs as Parquet, the rest as a card that is written last."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.errors import SPOILT
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import CITY, require_readable

Origin = Literal["synthetic", "imported"]


@dataclass(frozen=True)
class StoredCity:
    """A city with the names of its addresses, as the store has it under ``name``."""

    name: str
    city: City
    addresses: Addresses
    source: Origin


def save_city(store: Store, name: str, city: City, addresses: Addresses | None = None) -> None:
    """Write ``city`` under ``name``, over what was there.

    Parameters
    ----------
    addresses
        What people call its nodes; None of a synthetic city, whose nodes are called by their number.
    """
    columns = {"x": city.xy[:, 0], "y": city.xy[:, 1]}
    if addresses is not None:
        columns["id"] = pa.array(addresses.ids, pa.string())
        if addresses.lonlat is not None:
            columns |= {"lon": addresses.lonlat[:, 0], "lat": addresses.lonlat[:, 1]}
    store.put(layout.city_path(name), _parquet(pa.table(columns)))
    if city.matrix is not None:
        rows = pa.FixedSizeListArray.from_arrays(pa.array(city.matrix.ravel()), len(city.matrix))
        store.put(layout.city_matrix(name), _parquet(pa.table({"costs": rows})))
    source: Origin = "synthetic" if addresses is None else "imported"
    store.put_json(
        layout.city_card(name),
        {
            "schema_version": CITY.version,
            "city_id": city.city_id,
            "source": source,
            "customers": city.customers,
            "classes": city.classes,
            "demand": city.demand,
            "capacity": city.capacity,
            "origin": list(city.origin),
            "scale": city.scale,
            "unit": city.unit,
            "matrix": city.matrix is not None,
            "projection": addresses.projection if addresses else None,
            "parent": city.ancestors[-1] if city.extends else None,
            "extends": list(city.extends),
        },
    )


def has_city(store: Store, name: str) -> bool:
    """Return whether there is a city ``name``."""
    return store.exists(layout.city_card(name))


def load_city(store: Store, name: str) -> City:
    """Return the city ``name``.

    Raises
    ------
    McvrpError
        If there is none, a newer program wrote it, or its bytes are not the ones that were written.
    """
    return stored_city(store, name).city


def load_addresses(store: Store, name: str) -> Addresses:
    """Return what people call the nodes of the city ``name``; errors as in `load_city`."""
    return stored_city(store, name).addresses


def stored_city(store: Store, name: str) -> StoredCity:
    """Return the city ``name`` with its addresses; errors as in `load_city`."""
    if not has_city(store, name):
        raise McvrpError(f"no city {name!r} in {store.url()}: run mcvrp city create, or mcvrp city import")
    card = store.get_json(layout.city_card(name))
    path = layout.city_card(name)
    try:
        require_readable(CITY, card, store.url(path))
        path = layout.city_path(name)
        table = pq.read_table(io.BytesIO(store.get(path)))
        xy = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()])
        addresses = _addresses(table, card)
        matrix = None
        if card["matrix"]:
            path = layout.city_matrix(name)
            costs = pq.read_table(io.BytesIO(store.get(path)))["costs"].combine_chunks()
            matrix = costs.flatten().to_numpy().reshape(len(xy), len(xy))
        city = City(
            xy,
            matrix,
            (float(card["origin"][0]), float(card["origin"][1])),
            card["scale"],
            card["unit"],
            extends=tuple(card.get("extends", ())),
            spare=card.get("classes", len(xy)) - len(xy),
            demand=_range(card.get("demand")),
            capacity=_range(card.get("capacity")),
        )
        expected = card["city_id"]
    except (*SPOILT, KeyError, TypeError, IndexError, AttributeError) as error:
        raise McvrpError(f"{store.url(path)} does not hold a city ({error}): create it again") from error
    if city.city_id != expected:
        raise McvrpError(
            f"{store.url(path)} holds city {city.city_id}, its card names {expected}: create it again"
        )
    return StoredCity(name, city, addresses, card.get("source", "synthetic"))


def find_city(store: Store, city_id: str) -> City:
    """Return the city with the content hash ``city_id``, whatever its name.

    Where it is gone, but a city is there that extends it, it comes from there.

    Raises
    ------
    McvrpError
        If there is none.
    """
    cards = _cards(store)
    for name, card in cards:
        if card.get("city_id") == city_id:
            return load_city(store, name)
    for name, card in cards:
        if card.get("extends"):
            city = load_city(store, name)
            if city_id in city.ancestors:
                return city.ancestor(city.ancestors.index(city_id))
    raise McvrpError(
        f"no city in {store.url()} has the id {city_id}: make it there again (mcvrp city create or "
        "import), or copy it"
    )


def _cards(store: Store) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and cards of all cities; a card that cannot be read is somebody else's matter."""
    found = []
    for name in store.folders("cities"):
        try:
            card = store.get_json(layout.city_card(name))
        except McvrpError:
            continue
        if isinstance(card, dict):
            found.append((name, card))
    return found


def _addresses(table: pa.Table, card: dict[str, Any]) -> Addresses:
    if "id" not in table.column_names:
        return Addresses.numbered(table.num_rows - 1)
    lonlat = None
    if "lon" in table.column_names:
        lonlat = np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])
    return Addresses(tuple(table["id"].to_pylist()), lonlat, card.get("projection"))


def _range(values: Any) -> tuple[int, int] | None:
    return None if values is None else (int(values[0]), int(values[1]))


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


# What people call the nodes of a city

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Addresses:
    """The addresses behind the nodes of a city, the depot first.

    Parameters
    ----------
    ids
        What people call nodes 0 to m.
    lonlat
        Longitude and latitude of each in degrees (WGS 84), float64 ``(m + 1, 2)``, where known.
    projection
        How degrees became the city's coordinates, in PROJ's words; None where they were coordinates already.

    Raises
    ------
    McvrpError
        If an id is there twice, or there are not as many places as ids.
    """

    ids: tuple[str, ...]
    lonlat: NDArray[np.float64] | None = None
    projection: str | None = None

    def __post_init__(self) -> None:
        if len(self._node) < len(self.ids):
            raise McvrpError("two addresses of a city have the same id")
        if self.lonlat is not None and self.lonlat.shape != (len(self.ids), 2):
            raise McvrpError(f"{len(self.ids)} addresses cannot have places of shape {self.lonlat.shape}")

    @classmethod
    def numbered(cls, customers: int) -> Addresses:
        """Return the addresses of a city that has no names for them: "0", "1", ..."""
        return cls(tuple(map(str, range(customers + 1))))

    @cached_property
    def _node(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self.ids)}

    def nodes(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the node of each of ``ids``, `UNKNOWN` where there is no such address."""
        return np.array([self._node.get(name, UNKNOWN) for name in ids], dtype=np.int64)

    def names(self, nodes: Iterable[int]) -> list[str]:
        """Return the id of each of ``nodes``."""
        return [self.ids[node] for node in nodes]

    def __contains__(self, name: str) -> bool:
        return name in self._node


def joined(first: Addresses, ids: Sequence[str], lonlat: NDArray[np.float64] | None) -> Addresses:
    """Return ``first`` with more addresses behind them."""
    both = None if first.lonlat is None or lonlat is None else np.vstack([first.lonlat, lonlat])
    return Addresses((*first.ids, *ids), both, first.projection)
