"""Cities in the store, and what becomes of a file that is not the city's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import find_city, load_city, save_city
from mcvrp.storage.layout import city_matrix
from mcvrp.storage.parquet import write_parquet
from mcvrp.storage.store.store import Store, StoreUnavailable
from tests.support.silent_store import Outage


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


@given(rows=st.integers(0, 140), width=st.integers(1, 140))
def test_a_matrix_of_another_shape_is_refused(
    rows: int, width: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(str(tmp_path_factory.mktemp("store")))
    save_city(store, "c", city_of(70))
    write_matrix(store, np.zeros((rows, width)), width)
    with pytest.raises(McvrpError, match=r"matrix\.parquet.*create it again"):
        load_city(store, "c")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1 no such thing PAR1"])
def test_a_matrix_that_is_no_table_is_refused(data: bytes, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    save_city(store, "c", city_of(5))
    store.put(city_matrix("c"), data)
    with pytest.raises(McvrpError, match=r"matrix\.parquet is not a readable cost matrix .*create it again"):
        load_city(store, "c")


def test_a_matrix_of_other_costs_or_columns_is_refused(tmp_path: Path) -> None:
    store, city = Store(str(tmp_path)), city_of(5)
    save_city(store, "c", city)
    write_matrix(store, np.asarray(city.matrix) + 1, 5)
    with pytest.raises(McvrpError, match="but its card names"):
        load_city(store, "c")
    write_matrix(store, np.full((5, 5), np.nan), 5)
    with pytest.raises(McvrpError, match="from node 0 to node 0"):
        load_city(store, "c")
    write_parquet(store, city_matrix("c"), pa.table({"prices": [1.0]}))
    with pytest.raises(McvrpError, match="does not hold a city"):
        load_city(store, "c")


def test_a_silent_store_is_no_store_without_the_city(store: Store, outage: Outage) -> None:
    city = city_of(5)
    save_city(store, "c", city)
    outage.begin(2)  # the first lists the cities
    with pytest.raises(StoreUnavailable):
        find_city(store, city.city_id)
    assert find_city(store, city.city_id).city_id == city.city_id
