"""The store: bytes come back as they went in, appear whole or not at all, and bad places are named."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from unittest.mock import Mock

import pytest
from obstore.store import LocalStore

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store import store as stores
from mcvrp.storage.store.store import Store, StoreError, StoreUnavailable


def test_what_a_killed_writer_has_left_is_no_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b#1").write_bytes(b"half")
    assert store.list("") == []
    store.put("a/b", b"1")
    assert not store.put_new("a/b", b"2")
    assert [file.path for file in store.files("", hidden=True)] == ["a/b"]
    store.delete("a")
    assert os.listdir(tmp_path) == []


def test_a_written_file_and_its_name_are_synced(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure after the write costs nothing: obstore leaves both in memory."""
    synced = list[str]()
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    store.put("a/b", b"1")
    store.put_new("a/c", b"1")
    assert synced == [f"{store.uri}/{path}" for path in ("a/b", "a", "a/c", "a")]


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOSPC, StoreError, "free space"),
        (errno.EROFS, StoreError, "give another folder"),
        (errno.EACCES, StoreError, "request permission"),
        (errno.EIO, StoreUnavailable, "the same command again"),
        (errno.ESTALE, StoreUnavailable, "the same command again"),
    ],
)
def test_an_error_of_the_disk_is_permanent_or_temporary(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type, message: str
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(StoreError, match=rf"cannot write {tmp_path}/a/b \(.*\): .*{message}") as caught:
        store.put("a/b", b"new and longer")
    assert type(caught.value) is kind
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.args) == (kind, caught.value.args)


def test_the_end_of_a_file_is_read_alone(store: Store) -> None:
    data = bytes(range(256)) * 10
    store.put("a", data)
    store.put("empty", b"")
    assert store.get_end("a", 300) == data[-300:]
    assert store.get_end("a", 3000) == data
    assert store.get_end("empty", 300) == b""


def test_each_store_has_a_connection_and_copies_in_another_process_share_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[LocalStore]()

    def counted() -> LocalStore:
        made.append(LocalStore())
        return made[-1]

    monkeypatch.setattr(stores, "LocalStore", counted)
    one, other = Store(str(tmp_path)), Store(str(tmp_path))
    for _ in range(2):
        assert one.list("") == other.list("") == []
    assert (len(made), one == other) == (2, True)
    message = pickle.dumps(one)
    for _ in range(3):
        assert pickle.loads(message).list("") == []
    assert len(made) == 3


def test_an_opened_store_exists_or_is_created_by_its_first_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no store .*absent"):
        Store.open(tmp_path / "absent", writable=False)
    (tmp_path / "f").write_text("mine")
    with pytest.raises(McvrpError, match="f is not a folder: name one"):
        Store.open(tmp_path / "f")
    store = Store.open(tmp_path / "new" / "store")
    assert os.listdir(tmp_path) == ["f"]
    store.put("a", b"1")
    assert Store.open(tmp_path / "new" / "store", writable=False).get("a") == b"1"
    for folder in (tmp_path / "f" / "below", tmp_path / ("n" * 256), "/proc/mcvrp"):
        with pytest.raises(StoreError, match=f"cannot write {folder} "):
            Store.open(folder)  # refused to the superuser, too
    assert (tmp_path / "f").read_text() == "mine"


@pytest.mark.parametrize(
    "address",
    [
        *("file://user:secret@host/x", "file:///x", "file:x", "FILE:///x", "s3:/bucket/x", "s3:bucket"),
        *("s3://bucket/x?y", "s3://bucket/x?", "s3://bucket/x#", "s3://bucket:80/x", "s3://", "s3:///x"),
    ],
)
def test_an_address_is_not_read_as_another_one(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="is not the address of a store") as caught:
        Store.open(address)
    assert "secret" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [b"a\nb.csv", b"a\x1b.csv", b"\xe9.csv", b"\xe9/b.csv"])
def test_a_name_that_obstore_does_not_know_is_refused(store: Store, name: bytes) -> None:
    """It comes from another program, such as a CSV file with an accent in Latin-1, and ends a listing."""
    path = Path(store.uri, os.fsdecode(name))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"1")
    with pytest.raises(StoreError, match=r"cannot list .* \(.*csv.*\): rename or remove that file") as caught:
        store.list("")
    assert "\n" not in str(caught.value)
