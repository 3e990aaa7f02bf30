"""The store in a folder and on a real S3 server."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import threading
import time
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from botocore.httpsession import URLLib3Session

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.registry import enrol, pointer
from mcvrp.storage.store.lease import Holder, holding
from mcvrp.storage.store.store import Store, StoreError


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
        assert store.get_tagged(path)[0] == data
        assert store.size(path) == len(data)
        assert store.exists(path)
        with store.open_input(path) as stream:
            assert stream.read() == data
            stream.seek(0)
            assert stream.read(3) == data[:3]
    assert store.exists("a")
    assert not store.exists("b")


def test_deleting_removes_files_and_folders(store: Store) -> None:
    """Names with the same beginning stay; an absent file is no error; hidden files are removed, too."""
    for path in ("a/b/c", "a/b/.scrap", "a/bc", "a/d"):
        store.put(path, b"1")
    store.delete("a/b")
    assert store.list("") == ["a/bc", "a/d"]
    assert not store.exists("a/b")
    store.delete("a/d")
    store.delete("a/d")
    store.delete("never/was")
    assert store.list("") == ["a/bc"]
    store.delete("a")
    assert store.list("a") == store.list("never") == store.folders("never") == []


def test_a_deletion_of_many_files_has_the_checksum_that_some_servers_require(s3_uri: str) -> None:
    store, send = Store.open(s3_uri), URLLib3Session.send
    with patch.object(URLLib3Session, "send", autospec=True, side_effect=send) as sent:
        store.delete_files(["a", "b"])
    (_, request), _ = sent.call_args
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    assert b64decode(request.headers["Content-MD5"]) == digest


def test_absent_files_are_named(store: Store) -> None:
    store.put("folder/file", b"1")
    for read in (store.get, store.get_tagged, store.get_json, store.size, store.open_input):
        for path in ("nowhere", "folder"):
            with pytest.raises(McvrpError, match=rf"no .*{path}") as caught:
                read(path)
            assert not isinstance(caught.value, StoreError)
    with pytest.raises(McvrpError, match=r"there is no .*file/below"):
        store.get("folder/file/below")
    assert not store.exists("folder/file/below")
    assert store.find("nowhere") is store.find("folder") is None
    with pytest.raises(McvrpError, match=r"no .*nowhere"):
        store.move("nowhere", "somewhere")


def test_a_move_replaces_a_file(store: Store) -> None:
    store.put("a/b", b"new")
    store.put("c/d", b"old")
    store.move("a/b", "c/d")
    assert store.list("") == ["c/d"]
    assert store.get("c/d") == b"new"


def test_a_swap_needs_the_current_tag(store: Store) -> None:
    assert store.put_new("a", b"1")
    assert not store.put_new("a", b"2")
    _, tag = store.get_tagged("a")
    assert store.swap("a", b"3", tag)
    assert not store.swap("a", b"4", tag)
    assert store.get("a") == b"3"
    store.delete("a")
    assert not store.swap("a", b"5", tag)
    assert store.list("") == []


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


COUNT_UP = """
import sys
from mcvrp.storage.store.store import Store
store, done = Store(sys.argv[1]), 0
while done < int(sys.argv[2]):
    data, tag = store.get_tagged("counter")
    done += store.swap("counter", str(int(data) + 1).encode(), tag)
"""


@pytest.mark.slow
def test_no_update_is_lost_among_threads_and_processes(store: Store) -> None:
    store.put("counter", b"0")
    command = [sys.executable, "-c", COUNT_UP, store.uri, "15"]
    processes = [subprocess.Popen(command) for _ in range(2)]

    def raise_it(times: int) -> None:
        while times:
            data, tag = store.get_tagged("counter")
            times -= store.swap("counter", str(int(data) + 1).encode(), tag)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(raise_it, [15] * 4))
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert int(store.get("counter")) == 90


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
    code = (
        "import sys; from mcvrp.storage import Store; sys.stdout.write(Store(sys.argv[1]).get('a').decode())"
    )
    done = subprocess.run([sys.executable, "-c", code, store.uri], capture_output=True, text=True, check=True)
    assert done.stdout == "1"


def test_a_lease_holds_in_either_kind_of_store(store: Store) -> None:
    silent = replace(Holder.here(), host="far", machine="another")
    store.put("lease", silent.encode())
    with holding(store, "lease", "it is done", ttl=1.0) as lease:
        time.sleep(0.8)
        lease.check()
        assert store.get_json("lease")["beats"] >= 1
        with pytest.raises(McvrpError, match="it is done by process"), holding(store, "lease", "it is done"):
            pass
    assert store.list("") == []


def test_an_object_may_have_others_below_it(s3_uri: str) -> None:
    store = Store.open(s3_uri)
    alias = layout.model_alias("m", "champion")
    store.put_json(layout.model_card("m", 1), {})
    for path in ("d/lease.json", alias):
        store.put(f"{path}/below", b"1")
    with holding(store, "d/lease.json", "it works") as lease:
        lease.check()
    assert enrol(store, "m", 1) == "champion"
    assert pointer(store, "m", "champion").version == 1
    assert store.get(f"{alias}/below") == b"1"
