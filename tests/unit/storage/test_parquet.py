"""Small Parquet files of the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import BENCHMARK, TooNew

TABLE = pa.table({"n": [20, 21], "cost": [1.5, 2.5]})


def test_a_table_reads_back_as_written_and_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_parquet(store, "t.parquet", TABLE, BENCHMARK)
    assert read_parquet(store, "t.parquet", BENCHMARK).equals(TABLE, check_metadata=True)
    data = bytearray(store.get("t.parquet"))
    data[40] ^= 1
    store.put("t.parquet", bytes(data))
    with pytest.raises(McvrpError, match=r"t.parquet is not a readable list \(.*\): make it again"):
        read_parquet(store, "t.parquet", BENCHMARK, named="list", hint="make it again")


def test_a_newer_table_is_refused_by_its_version(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_parquet(store, "t.parquet", TABLE, replace(BENCHMARK, version=BENCHMARK.version + 1))
    with pytest.raises(TooNew, match=r"t\.parquet is a table of benchmark results of schema version 2"):
        read_parquet(store, "t.parquet", BENCHMARK)
