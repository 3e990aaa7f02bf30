"""Repair of a dataset without workers: what is moved away is recreated, and what is gone is no error."""

from __future__ import annotations

from mcvrp.storage import layout
from mcvrp.storage.driven import checksum
from mcvrp.storage.labels.verification import FileFault, VerificationReport, write_verification
from mcvrp.storage.provenance import FIELD
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.repair import _move_away, _RepairContext
from mcvrp.tasks.label.stage import label_missing
from tests.support.datasets import CITY, label_spec, make_dataset


def test_a_spec_that_only_verify_could_not_read_is_written_again(store: Store) -> None:
    """It lacked a solver, for example: extent and provenance stay, though nothing else changes."""
    make_dataset(store, label_spec())
    path = layout.label_spec("d")
    store.put_json(path, {**store.get_json(path), FIELD: {"parents": [], "makers": [{"version": "0"}]}})
    before = store.get(path)
    fault = FileFault(path, checksum(before), "no spec of labels")
    write_verification(store, VerificationReport("d", "", "", 0, 0, (fault,), ()))
    label_missing(store, CITY, label_spec(count=5))
    assert store.get(path) == before
    assert len(store.list(layout.corrupt_dir("d"))) == 1


def test_a_file_that_was_moved_away_is_no_error(store: Store) -> None:
    """Ray repeats the work of a worker that died after the move."""
    context = _RepairContext(store, make_dataset(store, label_spec()))
    path = layout.label_shard("d", 20, 0)
    store.put(path, b"half a file")
    assert _move_away(path, context) == 0
    assert _move_away(path, context) is None
