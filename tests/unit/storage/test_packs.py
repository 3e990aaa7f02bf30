"""Packs of small files: contents as of the files themselves, whatever has become of the pack."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcvrp.storage.packs import NAMED, Pack
from mcvrp.storage.store.store import Store, StoredFile
from tests.support.killed import killed_at_each_write

PACK = "days/.pack.pq"


class Reads(Counter[str]):
    """Reads by path; ``look`` returns the contents of a folder through its pack."""

    def look(self, store: Store) -> dict[str, bytes]:
        def read(path: str) -> bytes:
            with LOCK:
                self[path] += 1
            return store.get(path)

        return Pack(store, PACK).contents(store.files("days"), read)


LOCK = threading.Lock()


def fill(store: Store, count: int = 3) -> dict[str, bytes]:
    files = {f"days/{k}": f"content {k}".encode() for k in range(count)}
    for path, data in files.items():
        store.put(path, data)
        age(store, path)
    return files


def age(store: Store, path: str) -> None:
    """Make a file older than every pack to come."""
    os.utime(Path(store.uri, path), (10.0**9, 10.0**9))


def test_a_known_file_is_not_read_again(store: Store) -> None:
    files, reads = fill(store), Reads()
    assert reads.look(store) == reads.look(store) == files
    assert reads == dict.fromkeys(files, 1)
    assert store.list("days") == sorted(files)  # the pack is hidden


def test_new_changed_and_removed_files_are_seen(store: Store) -> None:
    files, reads = fill(store), Reads()
    reads.look(store)
    store.delete("days/0")
    store.put("days/1", b"changed to a longer one")
    store.put("days/9", b"new")
    now = {"days/1": b"changed to a longer one", "days/2": files["days/2"], "days/9": b"new"}
    assert reads.look(store) == now
    assert reads == {**dict.fromkeys(files, 1), "days/1": 2, "days/9": 1}


def test_a_file_as_young_as_the_pack_is_read_again(store: Store) -> None:
    """Within the resolution of a clock it may have been replaced after the pack was written."""
    fill(store, 1)
    Reads().look(store)
    written = Path(store.uri, PACK).stat().st_mtime_ns
    Path(store.uri, "days/0").write_bytes(b"content X")
    os.utime(Path(store.uri, "days/0"), ns=(written, written))
    Reads().look(store)
    os.utime(Path(store.uri, PACK), ns=(written, written))
    Path(store.uri, "days/0").write_bytes(b"content Y")
    os.utime(Path(store.uri, "days/0"), ns=(written, written))
    assert Reads().look(store) == {"days/0": b"content Y"}


@pytest.mark.parametrize("damage", [None, b"", b"PAR1", b"flip"])
def test_a_lost_or_corrupt_pack_is_rebuilt(store: Store, damage: bytes | None) -> None:
    files, reads = fill(store), Reads()
    reads.look(store)
    whole = store.get(PACK)
    store.delete(PACK)
    if damage is not None:
        middle = len(whole) // 4
        flipped = whole[:middle] + bytes([whole[middle] ^ 64]) + whole[middle + 1 :]
        store.put(PACK, flipped if damage == b"flip" else damage)
    assert reads.look(store) == files
    assert reads == dict.fromkeys(files, 2)
    assert reads.look(store) == files
    assert reads == dict.fromkeys(files, 2)


def test_a_kill_at_any_write_costs_nothing_but_reading(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files, folder = fill(store), tmp_path_factory.mktemp("killed")
    for copy, _ in killed_at_each_write(store, folder, Reads().look, at_least=1):
        assert Reads().look(copy) == files


def test_two_at_once_see_all_files(store: Store) -> None:
    """Whoever writes the pack last: the other's entries are read again, and nothing is lost."""
    files = fill(store, 8)

    def look(k: int) -> dict[str, bytes]:
        return Pack(store, PACK).contents(store.files("days")[k::2], store.get)

    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(look, [k % 2 for k in range(16)]))
    assert all(part == dict(list(files.items())[k % 2 :: 2]) for k, part in enumerate(parts))
    assert Reads().look(store) == files


def test_files_known_by_name_need_no_time(store: Store) -> None:
    """Files without content are read again."""
    files = [StoredFile(path, 0, NAMED) for path in ("days/0", "days/1")]
    contents = {"days/0": b"final"}
    assert Pack(store, PACK).contents(files, contents.get) == contents
    contents["days/0"], contents["days/1"] = b"not read", b"late"
    assert Pack(store, PACK).contents(files, contents.get) == {"days/0": b"final", "days/1": b"late"}
