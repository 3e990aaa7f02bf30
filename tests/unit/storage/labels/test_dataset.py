"""Datasets: footers from the list of shards, as long as it has the same files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import read_table, write_table
from mcvrp.storage.labels.shards import ShardList, write_list
from mcvrp.storage.store.store import Store
from tests.support.datasets import CITY, age, count_footers, label_spec, make_dataset

PATH = layout.label_shard("d", 20, 1)
LIST = layout.shard_list("d")
SHARDS = 4


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store")
    make_dataset(store, label_spec())
    age(store, "d")
    return store


@pytest.fixture
def footers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    return count_footers(monkeypatch)


def properties(store: Store, *, trust: bool = True) -> object:
    dataset = Dataset.open(store, "d", trust=trust)
    shards = [(shard.path, shard.footer, shard.bytes) for shard in dataset.shards()]
    return dataset.sizes(), shards, dataset.fingerprint()


def test_the_list_has_what_the_footers_have(store: Store, footers: Counter[str]) -> None:
    listed = properties(store)
    assert not footers
    assert listed == properties(store, trust=False)
    assert sorted(footers.values()) == [1] * SHARDS  # not once per call


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.delete(LIST),
        lambda store: store.put(LIST, b"garbage"),
        lambda store: store.put(LIST, store.get(PATH)),
        lambda store: os.utime(Path(store.uri, LIST), (1, 1)),
    ],
    ids=["lost", "no Parquet", "another table", "older than the shards"],
)
def test_without_its_list_each_footer_is_read_once(
    store: Store, footers: Counter[str], change: Callable[[Store], None]
) -> None:
    before = properties(store)
    change(store)
    assert properties(store) == before
    assert sorted(footers.values()) == [1] * SHARDS


def test_a_replaced_shard_is_noticed_by_its_time(store: Store, footers: Counter[str]) -> None:
    dataset = Dataset.open(store, "d")
    before, fingerprint, whole = store.stat(PATH), dataset.fingerprint(), store.get(PATH)
    store.put(PATH, whole[:-10] + bytes(10))
    assert before
    assert store.size(PATH) == before.size
    with pytest.raises(McvrpError, match=r"part-00001\.parquet is no whole Parquet file"):
        dataset.fingerprint()
    assert PATH not in [shard.path for shard in dataset.shards(skip_corrupt=True)]
    store.put(PATH, whole)
    assert dataset.fingerprint() == fingerprint
    assert set(footers) == {PATH}


def test_rows_of_another_file_with_the_same_size_and_time_are_refused(store: Store) -> None:
    write_table(store, PATH, CITY, "another spec", 20, read_table(store, PATH))
    replaced = store.stat(PATH)
    assert replaced
    listed = [
        replace(shard, bytes=replaced.size, modified=replaced.modified) if shard.path == PATH else shard
        for shard in ShardList(store, "d")
    ]
    write_list(store, "d", [listed[:2], listed[2:]])
    age(store, "d")
    assert properties(store)
    with pytest.raises(McvrpError, match=r"part-00001\.parquet is not the file that its dataset lists"):
        load_labels(store, "d", 20)
