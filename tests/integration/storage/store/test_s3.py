"""The store in a folder and on a real S3 server."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store, StoreError
from tests.support.s3_server import S3Server


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of either kind."""
    return Store.open(tmp_path if request.param == "folder" else request.getfixturevalue("s3_uri"))


def test_files_read_back_and_are_listed(store: Store) -> None:
    files = {
        "a/b/c.bin": b"1",
        "a/b.bin": b"",
        "ab/c.bin": bytes(range(256)) * 5000,
        "top": b"x",
        "a/n=020/p": b"2",
    }
    for path, data in files.items():
        store.put(path, b"before")
        store.put(path, data)
    store.put("a/.hidden", b"no")
    assert store.list("") == sorted(files)
    assert store.list("a") == ["a/b.bin", "a/b/c.bin", "a/n=020/p"]
    assert store.list("a/") == store.list("a")
    assert store.folders("") == ["a", "ab"]
    assert store.folders("a") == ["b", "n=020"]
    for path, data in files.items():
        assert store.get(path) == store.find(path) == data
        assert store.size(path) == len(data)
        assert store.exists(path)
        assert not data or store.get_end(path, 3) == data[-3:]
    assert not store.exists("a")


def test_deleting_removes_files_and_folders(store: Store) -> None:
    """Names with the same beginning stay; an absent file is no error; hidden files are removed, too."""
    for path in ("a/b/c", "a/b/.scrap", "a/bc", "a/d"):
        store.put(path, b"1")
    store.delete("a/b")
    assert store.list("") == ["a/bc", "a/d"]
    store.delete("a/d")
    store.delete("a/d")
    store.delete("never/was")
    assert store.list("") == ["a/bc"]
    store.delete("a")
    assert store.list("a") == store.list("never") == store.folders("never") == []


def test_absent_files_are_named(store: Store) -> None:
    store.put("folder/file", b"1")
    for read in (store.get, store.get_json, store.size):
        for path in ("nowhere", "folder"):
            with pytest.raises(McvrpError, match=rf"no .*{path}") as caught:
                read(path)
            assert not isinstance(caught.value, StoreError)
    assert store.find("nowhere") is store.find("folder") is None


def test_one_of_sixteen_concurrent_writers_wins(store: Store) -> None:
    for round_ in range(3):
        gate = threading.Barrier(16)

        def write(k: int, path: str = f"race/{round_}", gate: threading.Barrier = gate) -> bool:
            gate.wait()
            return store.put_new(path, bytes([k]) * 200_000)

        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(write, range(16)))
        assert sum(won) == 1
        assert store.get(f"race/{round_}") == bytes([won.index(True)]) * 200_000
    assert len(store.list("")) == 3


def test_a_reader_gets_old_bytes_or_new_ones(store: Store) -> None:
    store.put("a", b"\0" * 1000)

    def write() -> None:
        for k in range(1, 61):
            store.put("a", bytes([k]) * (1000 + 1000 * k))

    seen = set()
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        while not written.done():
            data = store.get("a")
            assert len(data) == 1000 + 1000 * data[0]
            assert data == data[:1] * len(data)
            seen.add(data[0])
        written.result()
    assert len(seen) > 1


def test_a_store_can_be_used_in_another_process(store: Store) -> None:
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"
    code = "import sys; from mcvrp import Store; sys.stdout.write(Store(sys.argv[1]).get('a').decode())"
    done = subprocess.run([sys.executable, "-c", code, store.uri], capture_output=True, text=True, check=True)
    assert done.stdout == "1"


@pytest.mark.parametrize("count", [0, 1, 60])
def test_many_files_are_deleted_and_no_others(store: Store, count: int) -> None:
    paths = [f"a/{k}" for k in range(count)]
    for path in (*paths, "a/kept"):
        store.put(path, b"1")
    store.delete_files([*paths, *(["never/was"] if count else [])])
    assert store.list("") == ["a/kept"]


def test_a_lease_holds_in_either_kind_of_store(store: Store) -> None:
    """An owner that was killed is waited for, one that is at work refuses."""
    store.put("a/.lease/000001", b"killed")
    began = time.monotonic()
    with holding(store, "a/.lease", "it is done", ttl=2.0) as lease:
        assert 1.0 <= time.monotonic() - began < 20  # times of objects are in seconds
        lease.confirm()
        with (
            pytest.raises(McvrpError, match="it is done by process"),
            holding(store, "a/.lease", "it is done", ttl=2.0),
        ):
            pass
        lease.check()
    assert store.list("") == []
    with holding(store, "a/.lease", "it is done") as lease:
        assert lease.number == 3


def test_names_with_special_characters_are_read_and_listed(store: Store) -> None:
    names = [
        "a b",
        "é ü.csv",
        "100%.csv",
        "a+b&c=d.csv",
        "q?x",
        "می\u200cخواهم.csv",
        "a~b",
        "[x]{y}",
        "a#b.csv",
    ]
    for name in names:
        store.put(f"incoming/{name}", name.encode())
    assert store.list("incoming") == sorted(f"incoming/{name}" for name in names)
    assert [store.get(path).decode() for path in store.list("incoming")] == sorted(names)
    store.delete("incoming")
    assert store.list("") == []


def test_keys_that_lead_elsewhere_are_not_ours(s3: S3Server, s3_uri: str) -> None:
    """A bucket may have any names: requests for invalid ones fail, and listings of what is no path."""
    store = Store.open(s3_uri)
    store.put("labels/d/spec.json", b"{}")
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    key = "labels/../../etc/passwd"
    s3.client().put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=b"")
    with pytest.raises(McvrpError, match="leads out of the store"):
        store.get(key)
    with pytest.raises(StoreError, match=r"cannot list .*etc/passwd.*: rename or remove that file"):
        store.list("labels")
