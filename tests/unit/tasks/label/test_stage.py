"""A run of labelling without work: it lists files, reads each footer once, and writes nothing twice."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import label_missing, labels_missing
from tests.support.datasets import (
    CITY,
    count_footers,
    everything,
    label_spec,
    make_dataset,
    write_card_of,
)


def test_a_run_with_nothing_to_do_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before it reads names only, the run each footer once, and no file as a whole."""
    make_dataset(store, label_spec())
    assert label_missing(store, CITY, label_spec()).new == 0  # writes the card
    before, footers = everything(store), count_footers(monkeypatch)
    assert labels_missing(store, CITY, label_spec()) == 0
    assert not footers
    assert label_missing(store, CITY, label_spec()).new == 0
    assert sorted(footers.values()) == [1] * 4
    assert everything(store) == before


@pytest.mark.parametrize("writes", range(3))
def test_a_card_is_up_to_date_after_a_kill(
    store: Store, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """A dataset is extended, and the run killed before the card or at any of its two writes."""
    make_dataset(store, label_spec(count=6))
    write_card_of(store, "d")
    make_dataset(store, label_spec())
    put, left = Store.put, [None] * writes

    def killed(store: Store, path: str, data: bytes) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        put(store, path, data)

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Store, "put", killed)
        write_card_of(store, "d")
    label_missing(store, CITY, label_spec())
    resumed = everything(store)
    for path in (layout.card("d"), layout.manifest("d")):
        store.delete(path)
    label_missing(store, CITY, label_spec())
    assert everything(store) == resumed


def test_a_dataset_without_its_spec_is_still_of_its_spec(store: Store) -> None:
    """Its files know what they were made from; the same spec is written again."""
    make_dataset(store, label_spec())
    path = layout.label_spec("d")
    whole = store.get(path)
    store.delete(path)
    with pytest.raises(McvrpError, match=r"belongs to another dataset .*: move it away"):
        label_missing(store, CITY, label_spec(iterations=6))
    assert not store.exists(path)
    label_missing(store, CITY, label_spec())
    assert store.get(path) == whole


@pytest.mark.parametrize(("n", "stop"), [(20, 24), (30, 6)])
def test_a_file_of_rows_that_nobody_requested_replaces_none(store: Store, n: int, stop: int) -> None:
    """As it comes from a copy of the dataset that was extended there."""
    make_dataset(store, label_spec())
    path = layout.label_file("d", n, 0, stop)
    store.put(path, store.get(store.list(layout.size_dir("d", 20))[0]))
    before = everything(store)
    with pytest.raises(McvrpError, match=rf"{path} has rows that its dataset has not: move it away"):
        label_missing(store, CITY, label_spec())
    assert everything(store) == before


def test_the_split_into_files_stays_as_it_was_begun(store: Store) -> None:
    make_dataset(store, label_spec(shard_rows=None, count=1))
    assert store.get_json(layout.label_spec("d"))["shard_rows"] == 64
    make_dataset(store, label_spec(shard_rows=None, count=70, largest=20))
    assert store.get_json(layout.label_spec("d"))["shard_rows"] == 64
    assert [Path(path).name for path in store.list(layout.size_dir("d", 20))] == [
        "rows-00000000-00000001.parquet",
        "rows-00000001-00000064.parquet",
        "rows-00000064-00000070.parquet",
    ]
    with pytest.raises(McvrpError, match="shard_rows is 64, requested 7"):
        label_missing(store, CITY, label_spec(shard_rows=7))
