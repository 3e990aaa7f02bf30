"""Records of trials: final ones are read from a pack."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_record, trial_records, write_record

NAMES = "night-000000000002", "night-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two nights of the model m and the files that they write before the record."""
    store = Store.open(tmp_path / "store")
    for number, name in enumerate(NAMES, start=1):
        store.put(layout.trial_metrics("m", name), b"{}")
        record = TrialRecord(name, number, 1, number + 1, "d", promote=False, reasons=(), days=("day",))
        write_record(store, "m", record)
    return store


def settled(store: Store) -> list[str]:
    """Return the names of all nights, as the holder of the lease reads them."""
    return [record.name for record in trial_records(store, "m", layout.NIGHT, lambda record: record)]


@pytest.mark.parametrize("packed", [True, False])
def test_a_corrupt_record_is_mended_as_its_error_says(store: Store, packed: bool) -> None:
    if packed:
        assert settled(store) == [*NAMES]
    store.put(layout.trial_record("m", NAMES[1]), b'{"na')
    with pytest.raises(McvrpError, match=r"night\.json is not a valid record .*: remove its folder"):
        trial_record(store, "m", settled(store)[-1])
    shutil.rmtree(Path(store.uri, layout.trial_dir("m", NAMES[1])))
    assert trial_record(store, "m", settled(store)[-1]).number == 1


def test_settled_records_come_from_the_pack_without_their_days(store: Store) -> None:
    """Also of nights whose record is corrupt; those that are not in the pack are read."""
    settled(store)
    third = TrialRecord("night-000000000003", 3, 1, 4, "d", promote=False, reasons=())
    write_record(store, "m", third)
    whole = store.get(layout.trial_record("m", NAMES[0]))
    store.put(layout.trial_record("m", NAMES[0]), b"corrupt")
    assert settled(store) == [*NAMES, third.name]
    store.put(layout.trial_record("m", NAMES[0]), whole)
    assert trial_records(store, "m", layout.NIGHT)[0].days == ("day",)
