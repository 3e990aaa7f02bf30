"""Obstacles at the path of a file, and links out of the store: refused in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import parse_table
from mcvrp.storage.models.registry import enrol, move_champion, pointer
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.store import Store, StoreError
from tests.support.labels import N

LEASE, ALIAS = layout.driver_lease("d"), layout.model_alias("m", "champion")
SHARD = layout.label_file("d", N, 0, 1)
SECRET = b"root:x:0:0\n"
NO_FILE = r"it is a folder, a pipe or a link that leads nowhere, not a file\): remove it"
PIPE = rf"({NO_FILE}|it is a pipe or a device, not a file\): remove it)"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of the store."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "secret").write_bytes(SECRET)
    return tmp_path / "away" / "secret"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store in which an endless loop of tries fails."""
    tries, really = 0, LocalFiles.write_new

    def counted(self: LocalFiles, path: str, data: bytes) -> bool:
        nonlocal tries
        tries += 1
        assert tries < 20, "it tries again and again"
        return really(self, path, data)

    monkeypatch.setattr(LocalFiles, "write_new", counted)
    return Store.open(tmp_path / "store")


def place(store: Store, path: str) -> Path:
    """The location of ``path``, in an existing folder."""
    target = Path(store.uri, path)
    target.parent.mkdir(parents=True)
    return target


def hold(store: Store) -> None:
    with holding(store, LEASE, "it works"):
        pytest.fail("it is held")


WORK: list[tuple[str, Callable[[Store], object]]] = [
    (LEASE, hold),
    (ALIAS, lambda store: enrol(store, "m", 1)),
    (ALIAS, lambda store: move_champion(store, "m", 1, pointer(store, "m", "champion"))),
    (SHARD, lambda store: parse_table(store.get(SHARD), SHARD)),
]


@pytest.mark.parametrize(("path", "work"), WORK)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda target, _: target.mkdir(), NO_FILE),
        (lambda target, _: target.symlink_to("gone"), NO_FILE),
        (lambda target, _: os.mkfifo(target), PIPE),
        (lambda target, file: target.symlink_to(file), "a link that leads out of the store"),
    ],
    ids=["folder", "dangling", "pipe", "outside"],
)
def test_an_obstacle_at_the_path_of_a_file_is_named(
    store: Store,
    secret: Path,
    make: Callable[[Path, Path], None],
    message: str,
    path: str,
    work: Callable[[Store], object],
) -> None:
    store.put_json(layout.model_card("m", 1), {})
    make(target := Path(store.uri, path) if path == ALIAS else place(store, path), secret)
    before = target.lstat()
    with pytest.raises(McvrpError, match=path if path == SHARD else f"{path} .*{message}") as caught:
        work(store)
    assert "\n" not in str(caught.value)
    assert target.lstat().st_ino == before.st_ino
    assert secret.read_bytes() == SECRET


READS: list[Callable[[Store, str], object]] = [
    lambda store, path: store.get(path),
    lambda store, path: store.find(path),
    lambda store, path: store.get_tagged(path),
    lambda store, path: store.open_input(path).read(),
    lambda store, path: store.exists(path),
    lambda store, path: store.swap(path, b"mine", "tag"),
]


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_no_reader_follows_a_link_out_of_the_store(store: Store, secret: Path, linked: str) -> None:
    path = "cities/c/secret"
    if linked == "file":
        place(store, path).symlink_to(secret)
    else:
        place(store, "cities/c").symlink_to(secret.parent)
    for read in READS:
        with pytest.raises(StoreError, match=rf"{path} \(a link that leads out of the store\)"):
            read(store, path)


WRITES: list[Callable[[Store, str], object]] = [
    lambda store, path: store.put(path, b"mine"),
    lambda store, path: store.put_new(path + "-new", b"mine"),
    lambda store, path: store.delete(path),
    lambda store, path: store.delete_files([path]),
    lambda store, path: store.move(path, "elsewhere"),
    lambda store, path: store.move("ours", path),
    lambda store, path: store.files("cities"),
    lambda store, path: store.folders("cities/c"),
]


def test_no_writer_and_no_list_follows_a_linked_folder_out_of_the_store(store: Store, secret: Path) -> None:
    store.put("ours", b"ours")
    place(store, "cities/c").symlink_to(secret.parent)
    for write in WRITES:
        with pytest.raises(StoreError, match="out of the store"):
            write(store, "cities/c/secret")
        assert (secret.read_bytes(), [path.name for path in secret.parent.iterdir()]) == (SECRET, ["secret"])


def test_a_link_itself_can_be_replaced_and_removed(store: Store, secret: Path) -> None:
    link = place(store, "cities/c/secret")
    link.symlink_to(secret)
    store.put("cities/c/secret", b"mine")
    assert store.get("cities/c/secret") == b"mine"
    for target in (secret, secret.parent, secret / "gone"):
        store.delete("cities/c/secret")
        assert not link.is_symlink()
        link.symlink_to(target)
    assert secret.read_bytes() == SECRET


def test_links_within_the_store_and_to_it_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = Store.open(tmp_path / "link")
    store.put("a/b", b"1")
    (tmp_path / "real" / "c").symlink_to("a")
    (tmp_path / "real" / "d").symlink_to(tmp_path / "real" / "a" / "b")
    assert store.get("c/b") == store.get("d") == b"1"
    assert store.list("c") == ["c/b"]
    store.put("c/e", b"2")
    assert store.list("a") == ["a/b", "a/e"]
