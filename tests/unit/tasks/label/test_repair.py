"""Repair of a dataset without workers: what is moved away is recreated, and what is gone is no error."""

from __future__ import annotations

import contextlib
from unittest.mock import Mock

import pytest
from ray.exceptions import LocalRayletDiedError, RaySystemError, WorkerCrashedError

from mcvrp.model.errors import IncompleteError
from mcvrp.storage import layout
from mcvrp.storage.driven import checksum
from mcvrp.storage.labels.verification import FileFault, VerificationReport, write_verification
from mcvrp.storage.provenance import FIELD
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import repair
from mcvrp.tasks.label.plan import LabelDataset
from mcvrp.tasks.label.repair import _move_away, _RepairContext
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.support.ray_session import ClusterLost
from mcvrp.tasks.support.ray_window import _result
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


@pytest.mark.parametrize(
    ("lost", "error"),
    [(RaySystemError("gone"), IncompleteError), (WorkerCrashedError(), None)],
    ids=["Ray", "reader"],
)
def test_only_a_file_whose_reader_crashes_is_moved_away(
    store: Store, monkeypatch: pytest.MonkeyPatch, lost: Exception, error: type[Exception] | None
) -> None:
    """Other errors of Ray say nothing about the file, whose labels are good."""
    dataset = make_dataset(store, label_spec())
    path = layout.label_shard("d", 20, 0)
    data = store.get(path)
    write_verification(
        store, VerificationReport("d", "", "", 0, 0, (FileFault(path, checksum(data), "suspected"),), ())
    )
    monkeypatch.setattr(repair, "ray_session", lambda *_: contextlib.nullcontext(1))
    monkeypatch.setattr(repair, "windowed", lambda _, paths, *__: ((each, lost) for each in paths))
    opened = LabelDataset.open(store, dataset)
    with pytest.raises(error) if error else contextlib.nullcontext():
        repair.repair_dataset(opened)
    assert (store.find(path) == data) == bool(error)
    assert bool(store.list(layout.corrupt_dir("d"))) == (error is None)


def test_the_end_of_ray_is_not_the_result_of_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    def died(_: object) -> None:
        raise LocalRayletDiedError

    monkeypatch.setattr("ray.get", died)
    with pytest.raises(ClusterLost, match="run the command again"):
        _result(Mock(), refusals=False)
