"""Benchmark results in the store."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_part, write_part, write_results
from mcvrp.storage.store.store import Store
from tests.support.results import ROW, read_results

PATH = layout.benchmark_part("b", "hgs-abc", 20, 0, 2)


def test_a_part_reads_back_as_written(store: Store) -> None:
    rows = [ROW, replace(ROW, index=1)]
    write_part(store, PATH, rows)
    assert read_part(store, PATH) == rows
    buffer = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(store.get(PATH))).drop_columns(["seconds"]), buffer)
    store.put(PATH, buffer.getvalue())
    with pytest.raises(McvrpError, match=r"other columns than method, n, .*: remove it"):
        read_part(store, PATH)


def test_fewer_samples_are_a_prefix(store: Store) -> None:
    """Cost and seconds at each number of samples; routes and all costs with the largest."""
    write_results(store, "b", [ROW])
    one, two = read_results(store, "b").to_pylist()
    assert (one["cost"], one["seconds"], one["routes"]) == (5.0, 1.0, None)
    assert (two["cost"], two["costs"], two["routes"]) == (4.0, [5.0, 4.0], [[1, 2], [3]])
