"""Records of trials."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.nights import NightRecord, night_records, write_record
from mcvrp.storage.store.store import Store

NAMES = "night-000000000002", "night-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two nights of the model m and the files that they write before the record."""
    store = Store.open(tmp_path / "store")
    for number, name in enumerate(NAMES, start=1):
        store.put(layout.night_metrics("m", name), b"{}")
        record = NightRecord(name, number, 1, number + 1, "d", promote=False, reasons=(), days=("day",))
        write_record(store, "m", record)
    return store


def test_a_corrupt_record_is_mended_as_its_error_says(store: Store) -> None:
    store.put(layout.night_record("m", NAMES[1]), b'{"na')
    with pytest.raises(McvrpError, match=r"night\.json is not a valid record .*: remove its folder"):
        night_records(store, "m")
    shutil.rmtree(Path(store.uri, layout.night_dir("m", NAMES[1])))
    assert [record.name for record in night_records(store, "m")] == [NAMES[0]]


def test_records_are_in_the_order_of_their_numbers(store: Store) -> None:
    """A night without a record is not decided."""
    store.put(layout.night_metrics("m", "night-000000000003"), b"{}")
    assert [record.name for record in night_records(store, "m")] == [*NAMES]
