"""Small Parquet files: equal after a round trip, refused in a sentence otherwise."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import BENCHMARK

TABLE = pa.table({"n": [20, 21], "cost": [1.5, 2.5]})


@pytest.mark.parametrize("checksums", [False, True])
def test_a_table_comes_back_as_it_was(tmp_path: Path, checksums: bool) -> None:
    """Columns, types and metadata are those that were written; the version is taken out again."""
    store = Store(str(tmp_path))
    write_parquet(store, "t.parquet", TABLE, BENCHMARK, checksums=checksums)
    assert read_parquet(store, "t.parquet", BENCHMARK).equals(TABLE, check_metadata=True)


def test_a_flipped_byte_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """A page with a checksum tells on every byte of its data."""
    store = Store(str(tmp_path))
    write_parquet(store, "t.parquet", TABLE, checksums=True)
    data = bytearray(store.get("t.parquet"))
    data[40] ^= 1
    store.put("t.parquet", bytes(data))
    with pytest.raises(McvrpError, match=r"t.parquet is not a readable list \(.*\): make it again"):
        read_parquet(store, "t.parquet", named="list", hint="make it again")


def test_columns_that_came_later_are_filled_in_others_are_refused(tmp_path: Path) -> None:
    """The table has the required columns in their order."""
    store = Store(str(tmp_path))
    write_parquet(store, "t.parquet", TABLE)
    columns = TABLE.schema.insert(1, pa.field("seed", pa.uint64()))
    read = read_parquet(store, "t.parquet", columns=columns, later={"seed": None})
    assert read.schema == columns
    assert read["seed"].to_pylist() == [None, None]
    with pytest.raises(McvrpError, match=r"other columns than n, seed, cost\): remove it"):
        read_parquet(store, "t.parquet", columns=columns)
