"""Staged files that are corrupt: the run that meets them takes them out and labels their rows again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from ray.exceptions import WorkerCrashedError

from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_table, write_table
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.store.errors import StoreUnavailable
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.repair import _move_away, _RepairContext
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.label.work import Unit
from tests.support.datasets import CITY, dearer, flipped, in_row, label_spec, rewritten
from tests.support.killed import killed_at_each_write
from tests.support.labels import unit_receipt

FIRST = layout.label_shard("d", 20, 0)  # rows 0 to 5
CHUNK = layout.staged_chunk("d", 20, 1, 5)
Rows = list[dict[str, Any]]


def wrong_cost(data: bytes) -> bytes:
    """Change the cost of the third row; every checksum of the file is right."""
    return rewritten(data, in_row(2, dearer))


def stage(store: Store, start: int, stop: int, change: Callable[[bytes], bytes] = lambda data: data) -> str:
    """Stage rows ``start`` to ``stop`` as a worker does, and ``change`` the file; return its path."""
    receipt = unit_receipt(store, CITY, label_spec().recipe(CITY), Unit(20, start, stop))
    assert receipt.chunk is not None
    store.put(receipt.chunk.path, change(store.get(receipt.chunk.path)))
    return receipt.chunk.path


def rows(store: Store) -> Rows:
    """All labels, in their order, but for the solver's seconds."""
    tables = [read_table(store, shard.path) for shard in Dataset.open(store, "d").shards()]
    return [row for table in tables for row in table.drop_columns(["runtime"]).to_pylist()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    store = Store.open(tmp_path_factory.mktemp("undisturbed"))
    label_missing(store, CITY, label_spec())
    return rows(store)


@pytest.fixture
def store(store: Store) -> Store:
    save_city(store, "c", CITY)
    return store


def check(store: Store, undisturbed: Rows, corrupt: Sequence[str]) -> None:
    """The dataset is the undisturbed one, nothing is staged, and what was ``corrupt`` is kept apart."""
    assert rows(store) == undisturbed
    assert store.list(layout.staging_dir("d")) == []
    apart = [path.rpartition(".")[0] for path in store.list(layout.corrupt_dir("d"))]
    assert sorted(apart) == sorted(layout.corrupt("d", path).rpartition(".")[0] for path in corrupt)
    assert verify_dataset(store, "d").good


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chunks", "again"),
    [
        ([(1, 5, flipped)], 4),
        ([(1, 5, wrong_cost)], 1),
        ([(0, 2, flipped), (2, 4, flipped), (4, 6, None), (7, 10, flipped)], 2 + 2 + 3),
        ([(1, 5, flipped), (0, 3, None), (4, 6, None)], 1),
        ([(0, 3, wrong_cost), (2, 6, flipped)], 4),
    ],
    ids=["a page", "a row", "several", "rows of it in another", "two that overlap"],
)
def test_the_run_that_meets_a_corrupt_chunk_makes_its_rows_again(
    store: Store,
    undisturbed: Rows,
    chunks: list[tuple[int, int, Callable[[bytes], bytes] | None]],
    again: int,
) -> None:
    """One run ends with the undisturbed labels, and solves no row again that is right somewhere."""
    corrupt = []
    for start, stop, change in chunks:
        path = stage(store, start, stop, change or bytes)
        corrupt += [path] if change else []
    staged = len({row for start, stop, _ in chunks for row in range(start, stop)})
    summary = label_missing(store, CITY, label_spec())
    assert summary.new == len(undisturbed) - staged + again
    assert (summary.rows, summary.lacks) == (len(undisturbed), "")
    check(store, undisturbed, corrupt)


def test_a_shard_that_grows_and_is_corrupt_is_made_again(store: Store, undisturbed: Rows) -> None:
    """The smaller shard that new rows are merged with is a source like another."""
    label_missing(store, CITY, label_spec(count=4))
    store.put(FIRST, flipped(store.get(FIRST)))
    label_missing(store, CITY, label_spec())
    check(store, undisturbed, [FIRST])


def test_a_chunk_that_has_begun_and_is_corrupt_is_made_again(store: Store, undisturbed: Rows) -> None:
    """A worker that would append to it cannot read it: it is taken out, and its rows are labelled again."""
    path = stage(store, 0, 6)
    begun, spec_hash = read_table(store, path).slice(0, 3), label_spec().recipe(CITY).spec_hash
    write_table(store, path, CITY, spec_hash, 20, begun)
    store.put(path, flipped(store.get(path)))
    label_missing(store, CITY, label_spec())
    check(store, undisturbed, [path])


def test_verify_sees_what_is_staged(store: Store, undisturbed: Rows) -> None:
    """A chunk that is right has no fault, one that is not is named, and the next run makes its rows again."""
    label_missing(store, CITY, label_spec())
    store.delete(FIRST)
    rebuild_manifest(store, "d")
    stage(store, 0, 1)
    report = verify_dataset(store, "d")
    assert (report.faults, report.missing, report.rows) == ((), ((20, 0, 6),), len(undisturbed) - 6)
    path, spec_hash = stage(store, 1, 5), label_spec().recipe(CITY).spec_hash
    write_table(store, path, CITY, spec_hash, 20, read_table(store, path).slice(0, 2))
    assert verify_dataset(store, "d").faults == ()  # it has only begun
    assert stage(store, 1, 5, flipped) == path
    elsewhere = layout.staged_chunk("d", 20, 7, 8)
    store.put(elsewhere, store.get(layout.staged_chunk("d", 20, 0, 1)))
    report = verify_dataset(store, "d")
    assert {fault.path for fault in report.faults} == {path, elsewhere}
    assert label_missing(store, CITY, label_spec()).new == 5
    check(store, undisturbed, [path, elsewhere])


@pytest.mark.slow
def test_who_is_killed_while_a_chunk_is_taken_out_loses_nothing(
    store: Store, tmp_path_factory: pytest.TempPathFactory, undisturbed: Rows
) -> None:
    path = stage(store, 0, 6, wrong_cost)
    source = Source(label_spec(), CITY)

    def take_out(there: Store) -> None:
        assert _move_away(path, _RepairContext(there, source, suspected=True)) == 5

    folder = tmp_path_factory.mktemp("killed")
    for copy, _ in killed_at_each_write(store, folder, take_out, at_least=3):
        label_missing(copy, CITY, label_spec())
        check(copy, undisturbed, [path])


def test_a_store_that_does_not_answer_makes_nothing_corrupt(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, source = stage(store, 1, 5), Source(label_spec(), CITY)
    context = _RepairContext(store, source, suspected=True)
    assert _move_away(path, context) is None
    assert _move_away(layout.staged_chunk("d", 20, 5, 6), context) is None
    before = store.list("")
    monkeypatch.setattr(Path, "read_bytes", Mock(side_effect=OSError(5, os.strerror(5))))
    with pytest.raises(StoreUnavailable):
        _move_away(path, context)
    assert store.list("") == before


def test_a_chunk_that_kills_its_reader_is_taken_out(
    store: Store, undisturbed: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of its rows is kept, and those of the chunk beside it are."""
    path = stage(store, 0, 4, wrong_cost)
    stage(store, 4, 6)
    killed = [(path, WorkerCrashedError())]
    monkeypatch.setattr("mcvrp.tasks.label.repair.windowed", lambda *_: iter(killed))
    assert label_missing(store, CITY, label_spec()).new == len(undisturbed) - 2
    check(store, undisturbed, [path])
