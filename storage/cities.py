"""Cities in the store: coordinates and costs as Parquet, the rest as a card that is written last."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from model.errors import McvrpError
from model.problem import City
from storage import layout
from storage.store import Store
from storage.store_errors import SPOILT

CITY_SCHEMA_VERSION = 1


def save_city(store: Store, name: str, city: City) -> None:
    """Write ``city`` under ``name``, over what was there."""
    store.put(layout.city_path(name), _parquet(pa.table({"x": city.xy[:, 0], "y": city.xy[:, 1]})))
    if city.matrix is not None:
        rows = pa.FixedSizeListArray.from_arrays(pa.array(city.matrix.ravel()), len(city.matrix))
        store.put(layout.city_matrix(name), _parquet(pa.table({"costs": rows})))
    store.put_json(
        layout.city_card(name),
        {
            "schema_version": CITY_SCHEMA_VERSION,
            "city_id": city.city_id,
            "customers": city.customers,
            "origin": list(city.origin),
            "scale": city.scale,
            "unit": city.unit,
            "matrix": city.matrix is not None,
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
        If there is none, or its bytes are not the ones that were written.
    """
    if not has_city(store, name):
        raise McvrpError(f"no city {name!r} in {store.url()}: run mcvrp city create")
    card = store.get_json(layout.city_card(name))
    path = layout.city_path(name)
    try:
        table = pq.read_table(io.BytesIO(store.get(path)))
        xy = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()])
        matrix = None
        if card["matrix"]:
            path = layout.city_matrix(name)
            costs = pq.read_table(io.BytesIO(store.get(path)))["costs"].combine_chunks()
            matrix = costs.flatten().to_numpy().reshape(len(xy), len(xy))
        origin = (float(card["origin"][0]), float(card["origin"][1]))
        city = City(xy, matrix, origin, card["scale"], card["unit"])
        expected = card["city_id"]
    except (*SPOILT, KeyError, TypeError) as error:
        raise McvrpError(f"{store.url(path)} does not hold a city ({error}): create it again") from error
    if city.city_id != expected:
        raise McvrpError(
            f"{store.url(path)} holds city {city.city_id}, its card names {expected}: create it again"
        )
    return city


def find_city(store: Store, city_id: str) -> City:
    """Return the city with the content hash ``city_id``, whatever its name.

    Raises
    ------
    McvrpError
        If there is none.
    """
    for path in store.list("cities"):
        if path.endswith("/city.json") and f'"{city_id}"'.encode() in store.get(path):
            return load_city(store, path.split("/")[1])
    raise McvrpError(
        f"no city in {store.url()} has the id {city_id}: make it there again (mcvrp city create), or copy it"
    )


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
