"""Cities in the store, and what becomes of a file that is not the city's."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, find_city, load_city, save_city, stored_city
from mcvrp.storage.layout import city_matrix
from mcvrp.storage.parquet import write_parquet
from mcvrp.storage.store.store import Store, StoreUnavailable
from tests.support.killed import Request, serve_all


def city_of(nodes: int, seed: int = 0) -> City:
    rng = np.random.default_rng(seed)
    return City.framed(rng.random((nodes, 2)), rng.random((nodes, nodes)))


def write_matrix(store: Store, costs: NDArray[np.float64], width: int) -> None:
    rows = pa.FixedSizeListArray.from_arrays(pa.array(costs.ravel()), width)
    write_parquet(store, city_matrix("c"), pa.table({"costs": rows}))


@pytest.mark.parametrize("nodes", [2, 63, 64, 65, 200])
def test_a_matrix_of_any_size_is_read_as_it_was_written(nodes: int, tmp_path: Path) -> None:
    """It is decoded in pieces of 64 rows."""
    store, city = Store(str(tmp_path)), city_of(nodes)
    save_city(store, "c", city)
    loaded = load_city(store, "c")
    assert np.array_equal(np.asarray(loaded.matrix), np.asarray(city.matrix))
    assert not np.asarray(loaded.matrix).flags.writeable
    assert loaded.city_id == city.city_id


def _put(path: str, data: bytes) -> Callable[[Store], None]:
    return lambda store: store.put(path, data)


def _of_another_city(store: Store) -> None:
    save_city(store, "other", City.uniform(4, 2))
    store.put(layout.city_path("c"), store.get(layout.city_path("other")))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_put(city_matrix("c"), b""), r"matrix\.parquet is not a readable cost matrix .*create it again"),
        (
            _put(city_matrix("c"), b"PAR1 no such thing PAR1"),
            "is not a readable cost matrix .*create it again",
        ),
        (lambda store: write_matrix(store, np.ones((5, 5)) - np.eye(5), 5), "but its card names"),
        (lambda store: write_matrix(store, np.full((5, 5), np.nan), 5), "from node 0 to node 0"),
        *(
            (lambda store, shape=shape: write_matrix(store, np.zeros(shape), shape[1]), "create it again")
            for shape in ((0, 5), (4, 5), (65, 5), (5, 4), (5, 70))
        ),
        (
            lambda store: write_parquet(store, city_matrix("c"), pa.table({"prices": [1.0]})),
            "does not hold a city",
        ),
        (_of_another_city, "its card names"),
        (_put(layout.city_path("c"), b"PAR1 no more"), "is not a readable city"),
        (
            lambda store: store.delete(layout.city_path("c")),
            r"there is no .*city\.parquet: .*mcvrp city create",
        ),
        (lambda store: store.delete(city_matrix("c")), r"there is no .*matrix\.parquet: .*mcvrp city create"),
        (lambda store: store.delete("cities/c"), r"no city 'c' in .*: name one that exists"),
    ],
)
def test_a_missing_or_corrupt_file_is_named(
    store: Store, damage: Callable[[Store], object], message: str
) -> None:
    save_city(store, "c", city_of(5))
    damage(store)
    with pytest.raises(McvrpError, match=message):
        load_city(store, "c")


def test_a_silent_store_is_no_store_without_the_city(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    city = city_of(5)
    save_city(store, "c", city)

    def silent(verb: str, path: str, request: Request) -> Any:
        if verb != "list":
            raise OSError(errno.EIO, "no answer")
        return request()

    with monkeypatch.context() as patch:
        serve_all(patch, silent)
        with pytest.raises(StoreUnavailable):
            find_city(store, city.city_id)
    assert find_city(store, city.city_id).city_id == city.city_id


XY = City.uniform(6, 1)


@pytest.mark.parametrize(
    "city",
    [
        XY,
        City(7 * XY.xy + 3, None, (3.0, 3.0), 7.0, "m"),
        City(XY.xy, XY.costs(np.arange(7))),
        City(XY.xy, XY.costs(np.arange(7)) + np.tri(7, k=-1)),
        City(XY.xy, extends=(2, 4), spare=3, demand=(2, 5), capacity=(7, 70)),
    ],
    ids=["uniform", "framed", "symmetric matrix", "matrix", "extending"],
)
def test_a_city_reads_back(store: Store, city: City) -> None:
    save_city(store, "c", city)
    back = load_city(store, "c")
    assert back.city_id == city.city_id
    for field in ("origin", "scale", "unit", "extends", "classes", "demand", "capacity"):
        assert getattr(back, field) == getattr(city, field)
    assert stored_city(store, "c").addresses.ids == tuple("0123456")
    assert store.get_json(layout.city_card("c"))["source"] == "synthetic"


def test_addresses_read_back(store: Store) -> None:
    addresses = Addresses(("депо", "a;b", *"cdefg"), np.arange(14.0).reshape(7, 2), "+proj=tmerc")
    save_city(store, "c", XY, addresses)
    assert stored_city(store, "c").city.address_ids == addresses.ids
    back = stored_city(store, "c").addresses
    assert (back.ids, back.projection) == (addresses.ids, addresses.projection)
    assert back.lonlat is not None
    np.testing.assert_array_equal(back.lonlat, np.arange(14.0).reshape(7, 2))
    assert back.nodes(["a;b", "zz", "депо"]).tolist() == [1, -1, 0]


def test_a_city_is_found_by_its_id_or_in_a_city_that_extends_it(store: Store) -> None:
    child = City(XY.xy, extends=(4,))
    save_city(store, "a-child", child)
    save_city(store, "parent", City(XY.xy[:5]))
    store.put(layout.city_card("a-broken"), b"[]")
    for _ in range(2):
        parent = find_city(store, child.ancestors[0])
        assert (parent.customers, parent.city_id) == (4, child.ancestors[0])
        store.delete("cities/parent")
    assert find_city(store, child.city_id).customers == 6


def test_an_unknown_city_is_answered_with_those_there_are(store: Store) -> None:
    with pytest.raises(McvrpError, match=r"no city 'lyn' in [^:]*: name one that exists"):
        load_city(store, "lyn")
    for name in ("lyon", "metz"):
        save_city(store, name, City.uniform(3, seed=1))
    with pytest.raises(McvrpError, match=r"no city 'lyn' in .* \(there are: lyon, metz\)"):
        load_city(store, "lyn")
    with pytest.raises(McvrpError, match=r"no city 'x' in .* \(there are: lyon, metz\)"):
        load_city(store, "x")
