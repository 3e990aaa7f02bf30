from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.cache import LabelCache, Listener
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import read_table, write_table
from mcvrp.storage.labels.mapped import MappedLabels, expected_bytes, map_labels, write_mapped
from mcvrp.storage.layout import label_shard, size_dir
from mcvrp.storage.store.store import Store
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


def opened(
    folder: Path, store: Store, counts: dict[int, int] = COUNTS, listener: Listener | None = None
) -> LabelCache:
    fingerprint = Dataset.open(store, "d").fingerprint()
    return LabelCache.open(folder, store, "d", fingerprint, counts, listener)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("n=*"))


def same(labels: MappedLabels, table: LabelArrays) -> bool:
    """True if every row of ``labels`` says what ``table`` does, read row by row."""
    for row in range(len(table)):
        nodes = np.concatenate([[0], labels.ids[row]])
        path = labels.positions[labels.offsets[row] : labels.offsets[row + 1]]
        if not np.array_equal(nodes[path], table.paths[table.offsets[row] : table.offsets[row + 1]]):
            return False
    arrays = [(getattr(labels, name), getattr(table, name)) for name in ("ids", "demands", "capacities")]
    return len(labels) == len(table) and all(np.array_equal(a, b) for a, b in arrays)


def test_the_cache_holds_the_labels(tmp_path: Path, store: Store) -> None:
    """Every size has the dataset's rows, in arrays that cannot be written; a size not asked for is absent."""
    with opened(tmp_path / "cache", store, {20: COUNT, 22: COUNT}) as cache:
        assert all(same(cache.labels(n), load_labels(store, "d", n)) for n in (20, 22))
        assert not cache.labels(20).positions.flags.writeable
        with pytest.raises(KeyError):
            cache.labels(21)


def test_what_is_there_is_not_read_again(tmp_path: Path, store: Store) -> None:
    """The second run reads nothing from the store; one that needs more reads the rest only."""
    heard: list[tuple[int, int]] = []
    opened(tmp_path / "cache", store, {20: COUNT}, lambda *progress: heard.append(progress)).close()
    assert heard == [(0, 1), (1, 1)]
    known = Dataset.open(store, "d").fingerprint()
    store.delete(size_dir("d", 20))
    with LabelCache.open(tmp_path / "cache", store, "d", known, {20: COUNT}, pytest.fail) as cache:  # type: ignore[arg-type]
        assert len(cache.labels(20)) == COUNT
    heard.clear()
    with pytest.raises(McvrpError, match="changed while they were read"):
        LabelCache.open(tmp_path / "cache", store, "d", known, COUNTS, lambda *p: heard.append(p))
    assert heard == [(1, 3), (2, 3)]
    assert files(tmp_path / "cache") == ["n=020.arrow"]


def test_the_first_labels_can_be_asked_for(tmp_path: Path, store: Store) -> None:
    """Rows beyond the count are left out, and another count is another file."""
    for count in (5, COUNT):
        with opened(tmp_path / "cache", store, {20: count}) as cache:
            assert same(cache.labels(20), load_labels(store, "d", 20, count))


def test_rows_are_counted_as_training_counts_them(tmp_path: Path, store: Store) -> None:
    """Several shards follow each other; a row that no solver has solved is left out."""
    table = read_table(store, label_shard("d", 20, 0))
    spec = next(iter(Dataset.open(store, "d").shards(20))).footer.spec_hash
    write_table(store, label_shard("d", 20, 0), CITY, spec, 20, table.slice(0, 5))
    rest = table.slice(5).filter(np.arange(5, COUNT) != 8)
    write_table(store, label_shard("d", 20, 1), CITY, spec, 20, rest, absent=[8])
    with opened(tmp_path / "cache", store, {20: COUNT - 1}) as cache:
        assert same(cache.labels(20), load_labels(store, "d", 20))
    with pytest.raises(McvrpError, match=f"has {COUNT - 1} of the {COUNT} labels of n=20: run mcvrp label"):
        opened(tmp_path / "cache", store, {20: COUNT})


def test_a_shard_is_taken_in_pieces(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of rows may be turned at a time: the cache holds the same."""
    monkeypatch.setattr("mcvrp.storage.labels.cache.ROW_GROUP", 5)
    with opened(tmp_path / "cache", store) as cache:
        assert all(same(cache.labels(n), load_labels(store, "d", n)) for n in COUNTS)


@pytest.mark.parametrize("n", [255, 256])
def test_numbers_take_the_smallest_type_that_holds_them(tmp_path: Path, n: int) -> None:
    """Large cities, demands and instances have wider numbers, and come back right."""
    first = 2**16 if n == 256 else 1
    columns = LabelArrays(
        index=np.arange(1),
        ids=np.arange(first, first + n, dtype=np.uint32)[None],
        demands=np.full((1, n), first % 2**10 + 300 * (n == 256), dtype=np.uint16),
        capacities=np.array([10**6], dtype=np.uint32),
        costs=np.ones(1),
        nodes=np.arange(first, first + n, dtype=np.uint32)[::-1],
        route_of=np.zeros(n, dtype=np.int64),
        row_of=np.zeros(1, dtype=np.int64),
    )
    path = tmp_path / "labels"
    write_mapped(path, MappedLabels.join([MappedLabels.of(columns)] * 2))
    labels = map_labels(path, n, 2)
    assert labels is not None
    sizes = [getattr(labels, name).dtype.itemsize for name in ("ids", "demands", "positions")]
    assert sizes == ([2, 1, 1] if n == 255 else [4, 2, 2])
    assert labels.positions[labels.offsets[1] :].tolist() == [0, *range(n, 0, -1), 0]
    assert labels.ids[1].tolist() == columns.ids[0].tolist()
    assert labels.demands[1].tolist() == columns.demands[0].tolist()


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "other size", "foreign"])
def test_a_corrupt_file_is_made_again(tmp_path: Path, store: Store, how: str) -> None:
    """A file that is too short, has a corrupt description or holds something else does no harm."""
    opened(tmp_path / "cache", store).close()
    path = next((tmp_path / "cache").rglob("n=021.arrow"))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    foreign = pa.BufferOutputStream()
    with pa.ipc.new_file(foreign, (batch := pa.record_batch({"ids": [1, 2]})).schema) as file:
        file.write_batch(batch)
    corrupt = {
        "cut": path.read_bytes()[:-1],
        "flipped": bytes(data),
        "empty": b"",
        "other size": path.with_name("n=020.arrow").read_bytes(),
        "foreign": foreign.getvalue().to_pybytes(),
    }
    path.write_bytes(corrupt[how])
    heard: list[tuple[int, int]] = []
    with opened(tmp_path / "cache", store, listener=lambda *progress: heard.append(progress)) as cache:
        assert same(cache.labels(21), load_labels(store, "d", 21))
    assert heard == [(2, 3), (3, 3)]


def test_what_describes_the_labels_is_checked(tmp_path: Path, store: Store) -> None:
    """No bit of a file that says where an array lies, or of what type, can be another; nor can its rows."""
    with opened(tmp_path / "cache", store, {20: COUNT}) as cache:
        labels = cache.labels(20)
    path = next((tmp_path / "cache").rglob("n=020.arrow"))
    data = path.read_bytes()
    assert map_labels(path, 20, COUNT)
    assert not map_labels(path, COUNT, 20)  # as many numbers
    start = data.index(labels.ids.tobytes())
    stop = data.index(labels.positions.tobytes()) + labels.positions.nbytes
    for place in [*range(0, start, 11), *range(stop, len(data), 11)]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        assert not map_labels(path, 20, COUNT), place


def test_files_of_another_format_are_made_again(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that another version has written is not read, and goes."""
    opened(tmp_path / "cache", store, {20: COUNT}).close()
    monkeypatch.setattr("mcvrp.storage.labels.cache.MAPPED_FORMAT", 3)
    heard: list[tuple[int, int]] = []
    with opened(tmp_path / "cache", store, {20: COUNT}, lambda *progress: heard.append(progress)) as cache:
        assert same(cache.labels(20), load_labels(store, "d", 20))
    assert heard == [(0, 1), (1, 1)]
    assert files(tmp_path / "cache") == ["n=020.arrow"]


def test_any_reader_of_arrow_reads_the_files(tmp_path: Path, store: Store) -> None:
    """A file is one of Arrow: its rows are those of the Parquet file, but for how paths name their nodes."""
    opened(tmp_path / "cache", store, {20: COUNT}).close()
    rows = pa.ipc.open_file(next((tmp_path / "cache").rglob("n=020.arrow"))).read_all()
    rows.validate(full=True)
    table = read_table(store, label_shard("d", 20, 0))
    for row, label in zip(rows.to_pylist(), table.to_pylist(), strict=True):
        assert {name: row[name] for name in ("ids", "demands", "capacity")} == {
            name: label[name] for name in ("ids", "demands", "capacity")
        }
        nodes = [0, *row["ids"]]
        path = [0, *(node for route in label["routes"] for node in [*route, 0])]
        assert [nodes[position] for position in row["path"]] == path


def test_a_mapping_takes_no_file_descriptor(tmp_path: Path, store: Store) -> None:
    """An open cache holds its lock only, whatever the number of sizes."""
    before = len(os.listdir("/proc/self/fd"))
    with opened(tmp_path / "cache", store):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_reads_and_the_others_wait(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that open it at once, one builds it; the others hear how far it has come, and have it."""
    read: list[int] = []
    heard: list[tuple[int, int]] = []
    caches: list[LabelCache] = []
    known = Dataset.open(store, "d").fingerprint()

    read_rows = Dataset.read_rows

    def slowly(dataset: Dataset, n: int, limit: int) -> Iterator[pa.Table]:
        read.append(n)
        time.sleep(0.1)
        return read_rows(dataset, n, limit)

    def open_it(who: int) -> None:
        cache = LabelCache.open(
            tmp_path / "cache", store, "d", known, COUNTS, lambda done, _: heard.append((who, done))
        )
        caches.append(cache)

    monkeypatch.setattr(Dataset, "read_rows", slowly)
    monkeypatch.setattr("mcvrp.storage.labels.cache._POLL_SECONDS", 0.02)
    threads = [threading.Thread(target=open_it, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [20, 21, 22]
    assert {who for who, _ in heard} == set(range(4))
    assert all(same(cache.labels(22), load_labels(store, "d", 22)) for cache in caches)
    for cache in caches:
        cache.close()


def test_who_is_killed_leaves_whole_sizes(tmp_path: Path, store: Store) -> None:
    """After SIGKILL in the middle of building, the next goes on with the sizes that are missing."""
    program = """
        import sys, time
        from pathlib import Path
        from mcvrp.storage.labels.cache import LabelCache
        from mcvrp.storage.labels.dataset import Dataset
        from mcvrp.storage.store.store import Store

        def listener(done, sizes):
            if done == 2:
                print("two", flush=True)
                time.sleep(60)

        store = Store.open(sys.argv[2])
        known = Dataset.open(store, "d").fingerprint()
        LabelCache.open(Path(sys.argv[1]), store, "d", known, {20: 12, 21: 12, 22: 12}, listener)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "cache"), store.uri]
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout.readline() == "two\n"
        process.send_signal(signal.SIGKILL)
    assert files(tmp_path / "cache") == ["n=020.arrow", "n=021.arrow"]
    next((tmp_path / "cache").rglob("n=020.arrow")).with_name(".n=022.arrow.tmp").write_bytes(b"half")
    heard: list[tuple[int, int]] = []
    with opened(tmp_path / "cache", store, listener=lambda *progress: heard.append(progress)) as cache:
        assert same(cache.labels(22), load_labels(store, "d", 22))
    assert heard == [(2, 3), (3, 3)]
    assert not list((tmp_path / "cache").rglob("*.tmp"))


def test_what_the_dataset_no_longer_is_goes_when_nobody_has_it(tmp_path: Path, store: Store) -> None:
    """An earlier state of the dataset is removed, but not under whoever has it open."""
    folder = tmp_path / "cache"
    first = opened(folder, store, {20: COUNT})
    earlier = load_labels(store, "d", 20)
    write_dataset(store, CITY, range(20, 21), COUNT + 1, "d")
    with opened(folder, store, {20: COUNT + 1}):
        assert len(files(folder)) == 2
        assert same(first.labels(20), earlier)
        first.close()
    with opened(folder, store, {20: COUNT + 1}) as cache:
        assert len(files(folder)) == 1
        assert same(cache.labels(20), load_labels(store, "d", 20))
    assert len(list(next(folder.iterdir()).iterdir())) == 1


def test_another_store_or_dataset_has_a_cache_of_its_own(tmp_path: Path, store: Store) -> None:
    """Caches of other datasets and stores are left alone."""
    opened(tmp_path / "cache", store, {20: COUNT}).close()
    shutil.copytree(store.uri, tmp_path / "copy")
    copy = Store.open(tmp_path / "copy")
    write_dataset(copy, CITY, range(20, 21), COUNT + 1, "d")
    opened(tmp_path / "cache", copy, {20: COUNT + 1}).close()
    assert len(files(tmp_path / "cache")) == 2


def test_a_disk_without_room_is_named(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The need of the cache is known before anything is read; a disk that fills up says the same."""
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage(1, 1, 10**6))
        with pytest.raises(McvrpError, match=r"cache of labels in .*cache.* needs about .* GB.*MCVRP_CACHE"):
            opened(tmp_path / "cache", store)
    monkeypatch.setattr(os, "fsync", _no_room)
    with pytest.raises(McvrpError, match=r"cannot be written \(No space left on device\).*MCVRP_CACHE"):
        opened(tmp_path / "cache", store)
    assert not list((tmp_path / "cache").rglob("*arrow*"))


def test_a_folder_that_cannot_be_is_named(tmp_path: Path, store: Store) -> None:
    """A file where the cache should be is bad input."""
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(McvrpError, match=r"cache of labels in .*cache cannot be written"):
        opened(tmp_path / "cache", store)


def test_the_expected_size_is_about_right(tmp_path: Path, store: Store) -> None:
    """Half to twice what the files take, of which what describes the labels is the larger part here."""
    with opened(tmp_path / "cache", store):
        there = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("n=*"))
    assert 0.5 < sum(expected_bytes(n, rows) for n, rows in COUNTS.items()) / there < 2


def _no_room(_: int) -> None:
    raise OSError(28, "No space left on device")
