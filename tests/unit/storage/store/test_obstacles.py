"""What is no file where one should be, and links: named in a sentence, never waited for nor followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.schema import label_table
from mcvrp.storage.models.registry import enrol, move_champion, pointer
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.label.worker import LabelPiece, publish
from tests.support.labels import CITY, N, some_label

LEASE = "labels/d/lease.json"
SECRET = b"root:x:0:0\n"
Obstacle = Callable[[Path, Path], None]  # makes something at a place; the other is a file of somebody else

OBSTACLES: dict[str, tuple[Obstacle, str]] = {
    "folder": (lambda place, _: place.mkdir(), r"it is a folder\): move the folder away"),
    "dangling": (
        lambda place, _: place.symlink_to("gone"),
        r"a link that leads nowhere\): replace the link by its target",
    ),
    "circle": (lambda place, _: place.symlink_to(place.name), "(remove|replace) the link"),
    "outside": (
        lambda place, file: place.symlink_to(file),
        r"out of the store\): replace the link by its target",
    ),
    "link to a folder": (lambda place, _: place.symlink_to("."), r"it is a folder\): move the folder away"),
    "pipe": (lambda place, _: os.mkfifo(place), r"a pipe or a device, not a file\): remove it"),
}
each_obstacle = pytest.mark.parametrize(("make", "said"), OBSTACLES.values(), ids=OBSTACLES)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside of the store."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "secret").write_bytes(SECRET)
    return tmp_path / "away" / "secret"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store in which nobody tries for ever."""
    tries, really = 0, LocalFiles.write_new

    def counted(self: LocalFiles, path: str, data: bytes) -> bool:
        nonlocal tries
        tries += 1
        assert tries < 20, "it tries again and again"
        return really(self, path, data)

    monkeypatch.setattr(LocalFiles, "write_new", counted)
    return Store.open(tmp_path / "store")


def place(store: Store, path: str) -> Path:
    """The place of ``path``, whose folder is made."""
    target = Path(store.uri, path)
    target.parent.mkdir(parents=True)
    return target


@each_obstacle
def test_a_lease_names_what_is_in_its_place(store: Store, secret: Path, make: Obstacle, said: str) -> None:
    """One sentence with the path and the remedy; what is there stays as it is."""
    make(target := place(store, LEASE), secret)
    before = target.lstat()
    with pytest.raises(StoreError, match=rf"{LEASE} .*{said}") as caught, holding(store, LEASE, "it works"):
        pytest.fail("it is held")
    assert "\n" not in str(caught.value)
    assert target.lstat().st_ino == before.st_ino
    assert secret.read_bytes() == SECRET


@each_obstacle
def test_an_alias_names_what_is_in_its_place(store: Store, secret: Path, make: Obstacle, said: str) -> None:
    """A version is not enrolled, nor made the champion, and the sentence says why."""
    path = layout.model_alias("m", "champion")
    make(place(store, path), secret)
    store.put_json(layout.model_card("m", 1), {})
    for move in (
        lambda: enrol(store, "m", 1),
        lambda: move_champion(store, "m", 1, pointer(store, "m", "champion")),
    ):
        with pytest.raises(McvrpError, match=rf"{path} .*{said}"):
            move()


@each_obstacle
def test_a_shard_names_what_is_in_its_place(store: Store, secret: Path, make: Obstacle, said: str) -> None:
    """Nothing is published, and nobody tries for ever."""
    path = layout.label_shard("d", N, 0)
    make(place(store, path), secret)
    piece = LabelPiece(label_table([some_label(0)]))
    with pytest.raises(McvrpError, match=path):
        publish(store, CITY, "spec", path, N, 0, 1, [piece])


READERS: dict[str, Callable[[Store, str], object]] = {
    "get": lambda store, path: store.get(path),
    "find": lambda store, path: store.find(path),
    "get_tagged": lambda store, path: store.get_tagged(path),
    "get_json": lambda store, path: store.get_json(path),
    "open_input": lambda store, path: store.open_input(path).read(),
    "size": lambda store, path: store.size(path),
    "stat": lambda store, path: store.stat(path),
    "exists": lambda store, path: store.exists(path),
    "swap": lambda store, path: store.swap(path, b"mine", "tag"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("linked", ["file", "folder above it"])
def test_no_reader_follows_a_link_out_of_the_store(
    store: Store, secret: Path, read: Callable[[Store, str], object], linked: str
) -> None:
    """Whether the file is a link or lies in a linked folder: refused, without a word of what it holds."""
    if linked == "file":
        place(store, "cities/c/secret").symlink_to(secret)
    else:
        place(store, "cities/c").symlink_to(secret.parent)
    with pytest.raises(StoreError, match=r"cities/c/secret \(a link that leads out of the store\)") as caught:
        read(store, "cities/c/secret")
    assert "root:x" not in str(caught.value)


WRITERS: dict[str, Callable[[Store, str], object]] = {
    "put": lambda store, path: store.put(path, b"mine"),
    "put_new": lambda store, path: store.put_new(path + "-new", b"mine"),
    "delete": lambda store, path: store.delete(path),
    "move away": lambda store, path: store.move(path, "elsewhere"),
    "move there": lambda store, path: store.move("ours", path),
    "files": lambda store, path: store.files("cities"),
    "folders": lambda store, path: store.folders("cities/c"),
}


@pytest.mark.parametrize("work", WRITERS.values(), ids=WRITERS)
def test_no_writer_and_no_list_follows_a_linked_folder_out_of_the_store(
    store: Store, secret: Path, work: Callable[[Store, str], object]
) -> None:
    """What lies there is somebody else's: it is neither changed, nor removed, nor listed."""
    store.put("ours", b"ours")
    place(store, "cities/c").symlink_to(secret.parent)
    with pytest.raises(StoreError, match="out of the store"):
        work(store, "cities/c/secret")
    assert (secret.read_bytes(), [path.name for path in secret.parent.iterdir()]) == (SECRET, ["secret"])


def test_a_link_itself_can_be_replaced_and_removed(store: Store, secret: Path) -> None:
    """A file takes its place; deleting it, to a file or a folder, leaves what it leads to."""
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
    """The store may be a link, and so may files and folders whose targets it has."""
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
