from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.cache import LabelCache, MappedLabels, cached_labels
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import read_table
from mcvrp.storage.layout import label_file, size_dir
from mcvrp.storage.store.store import Store
from tests.support.datasets import write_rows
from tests.support.training import write_dataset

COUNT = 12
COUNTS = {20: COUNT, 21: COUNT, 22: COUNT}
CITY = City.uniform(60, seed=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("store"))
    write_dataset(store, CITY, range(20, 23), COUNT, "d")
    return store


@pytest.fixture
def store(whole: Store, tmp_path: Path) -> Store:
    """A dataset of three sizes that a test may change."""
    shutil.copytree(whole.uri, tmp_path / "store")
    return Store.open(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def opened(folder: Path, store: Store, counts: dict[int, int] = COUNTS) -> LabelCache:
    return cached_labels(folder, store, "d", Dataset.open(store, "d").fingerprint(), counts)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("n=*"))


def same(labels: MappedLabels, table: LabelArrays) -> bool:
    for row in range(len(table)):
        nodes = np.concatenate([[0], labels.ids[row]])
        path = labels.positions[labels.offsets[row] : labels.offsets[row + 1]]
        if not np.array_equal(nodes[path], table.paths[table.offsets[row] : table.offsets[row + 1]]):
            return False
    arrays = [(getattr(labels, name), getattr(table, name)) for name in ("ids", "demands", "capacities")]
    return len(labels) == len(table) and all(np.array_equal(a, b) for a, b in arrays)


def test_the_cache_holds_the_labels(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcvrp.storage.labels.cache.ROW_GROUP", 5)
    for counts in ({20: 5, 22: 5}, {20: COUNT, 22: COUNT}):
        cache = opened(folder, store, counts)
        assert all(same(cache[n], load_labels(store, "d", n, counts[n])) for n in (20, 22))
        assert not cache[20].positions.flags.writeable
        with pytest.raises(KeyError):
            cache[21]


def test_cached_sizes_are_not_read_again(folder: Path, store: Store) -> None:
    opened(folder, store, {20: COUNT})
    fingerprint = Dataset.open(store, "d").fingerprint()
    store.delete(size_dir("d", 20))
    cache = cached_labels(folder, store, "d", fingerprint, {20: COUNT})
    assert len(cache[20]) == COUNT
    with pytest.raises(McvrpError, match="changed while they were read"):
        cached_labels(folder, store, "d", fingerprint, COUNTS)
    assert files(folder) == []


def test_rows_of_several_files_are_counted_without_the_absent(folder: Path, store: Store) -> None:
    path = label_file("d", 20, 0, COUNT)
    table = read_table(store, path)
    store.delete(path)
    write_rows(store, "d", 20, table.slice(0, 5))
    write_rows(store, "d", 20, table.slice(5).filter(np.arange(5, COUNT) != 8), {8: "no routes"})
    cache = opened(folder, store, {20: COUNT - 1})
    assert same(cache[20], load_labels(store, "d", 20))
    with pytest.raises(McvrpError, match=f"has {COUNT - 1} of the {COUNT} labels of n=20: run mcvrp label"):
        opened(folder, store, {20: COUNT})


@pytest.mark.parametrize("change", ["cut", "other size", "foreign", "other format"])
def test_an_invalid_file_is_rebuilt(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    opened(folder, store)
    path = next(folder.rglob("n=021.arrow"))
    foreign = pa.BufferOutputStream()
    with pa.ipc.new_file(foreign, (batch := pa.record_batch({"ids": [1, 2]})).schema) as file:
        file.write_batch(batch)
    corrupt = {
        "cut": path.read_bytes()[:-1],
        "other size": path.with_name("n=020.arrow").read_bytes(),
        "foreign": foreign.getvalue().to_pybytes(),
    }
    if change == "other format":
        monkeypatch.setattr("mcvrp.storage.labels.cache.MAPPED_FORMAT", 0)
    else:
        path.write_bytes(corrupt[change])
    cache = opened(folder, store)
    assert same(cache[21], load_labels(store, "d", 21))
    assert len(files(folder)) == len(COUNTS)


def test_one_process_builds_and_the_others_wait(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    fingerprint = Dataset.open(store, "d").fingerprint()
    read_rows = Dataset.read_rows

    def slowly(dataset: Dataset, n: int, limit: int) -> Iterator[pa.Table]:
        read.append(n)
        time.sleep(0.1)
        return read_rows(dataset, n, limit)

    def open_cache(_: int) -> LabelCache:
        return cached_labels(folder, store, "d", fingerprint, COUNTS)

    monkeypatch.setattr(Dataset, "read_rows", slowly)
    with ThreadPoolExecutor(4) as pool:
        caches = list(pool.map(open_cache, range(4)))
    assert read == [20, 21, 22]
    for cache in caches:
        assert same(cache[22], load_labels(store, "d", 22))


def test_a_kill_leaves_whole_sizes(folder: Path, store: Store) -> None:
    program = """
        import os, sys
        from pathlib import Path
        from mcvrp.storage.labels.cache import cached_labels
        from mcvrp.storage.labels.dataset import Dataset
        from mcvrp.storage.store.store import Store

        read_rows = Dataset.read_rows
        Dataset.read_rows = lambda *call: os.kill(os.getpid(), 9) if 22 in call else read_rows(*call)
        store = Store.open(sys.argv[2])
        fingerprint = Dataset.open(store, "d").fingerprint()
        cached_labels(Path(sys.argv[1]), store, "d", fingerprint, {20: 12, 21: 12, 22: 12})
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder), store.uri]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert files(folder) == ["n=020.arrow", "n=021.arrow"]
    next(folder.rglob("n=020.arrow")).with_name(".n=022.arrow.tmp").write_bytes(b"half")
    cache = opened(folder, store)
    assert same(cache[22], load_labels(store, "d", 22))
    assert not list(folder.rglob("*.tmp"))


def test_an_earlier_state_is_removed_and_stays_readable_where_it_is_open(folder: Path, store: Store) -> None:
    first = opened(folder, store, {20: COUNT})
    earlier = load_labels(store, "d", 20)
    write_dataset(store, CITY, range(20, 21), COUNT + 1, "d")
    cache = opened(folder, store, {20: COUNT + 1})
    assert len(files(folder)) == 1
    assert same(first[20], earlier)
    assert same(cache[20], load_labels(store, "d", 20))


def test_another_store_has_a_cache_of_its_own(folder: Path, store: Store, tmp_path: Path) -> None:
    opened(folder, store, {20: COUNT})
    shutil.copytree(store.uri, tmp_path / "copy")
    copy = Store.open(tmp_path / "copy")
    write_dataset(copy, CITY, range(20, 21), COUNT + 1, "d")
    opened(folder, copy, {20: COUNT + 1})
    assert len(files(folder)) == 2


def test_a_disk_that_is_full_or_a_file_is_named(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(McvrpError, match=r"cannot be written \(No space left on device\).*MCVRP_CACHE"):
        opened(folder, store)
    assert not list(folder.rglob("*arrow*"))
    shutil.rmtree(folder)
    folder.write_bytes(b"")
    with pytest.raises(McvrpError, match=r"cache of labels in .*cache cannot be written"):
        opened(folder, store)
