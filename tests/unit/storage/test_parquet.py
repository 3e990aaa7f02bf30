"""Small Parquet files of the store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store

TABLE = pa.table({"n": [20, 21], "cost": [1.5, 2.5]})


def test_a_table_reads_back_as_written_and_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    write_parquet(store, "t.parquet", TABLE)
    assert read_parquet(store, "t.parquet").equals(TABLE, check_metadata=True)
    data = bytearray(store.get("t.parquet"))
    data[40] ^= 1
    store.put("t.parquet", bytes(data))
    with pytest.raises(McvrpError, match=r"t.parquet is not a readable list \(.*\): make it again"):
        read_parquet(store, "t.parquet", named="list", hint="make it again")
