"""Obstacles at the path of a file: refused in a sentence, and left as they are; links are followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.registry import enrol
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store, StoreError
from tests.support.labels import N

LEASE, MOVE = f"{layout.driver_lease('d')}/000001", layout.champion_move("m", 1)
SHARD = layout.label_file("d", N, 0, 1)


def hold(store: Store) -> None:
    with holding(store, layout.driver_lease("d"), "it works", ttl=0.1):
        pytest.fail("it is held")


WORK: list[tuple[str, Callable[[Store], object]]] = [
    (LEASE, hold),
    (MOVE, lambda store: enrol(store, "m", 1)),
    (SHARD, lambda store: store.put_new(SHARD, b"")),
]


@pytest.mark.parametrize(("path", "work"), WORK)
@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda target: target.symlink_to("gone")], ids=["folder", "dangling"]
)
def test_an_obstacle_at_the_path_of_a_file_that_is_created_is_named(
    store: Store, make: Callable[[Path], None], path: str, work: Callable[[Store], object]
) -> None:
    target = Path(store.uri, path)
    target.parent.mkdir(parents=True)
    make(target)
    with pytest.raises(McvrpError, match=rf"cannot write .*{path} \(File exists\): check the path") as caught:
        work(store)
    assert "\n" not in str(caught.value)
    assert os.path.lexists(target)


def test_a_file_and_a_folder_in_each_others_place_are_named(store: Store) -> None:
    store.put("a/b", b"1")
    for path in ("a", "a/b/c"):
        with pytest.raises(
            StoreError, match=rf"cannot write {store.url(path)} \((Is|Not) a directory\): check the path"
        ):
            store.put(path, b"1")
    assert store.list("") == ["a/b"]


def test_links_are_followed_and_removed_themselves(tmp_path: Path) -> None:
    """A store, or a folder of it, may be on another disk."""
    (tmp_path / "real").mkdir()
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = Store.open(tmp_path / "link")
    (tmp_path / "real" / "labels").symlink_to(tmp_path / "disk")
    store.put("labels/b", b"1")
    (tmp_path / "real" / "gone").symlink_to("nowhere")
    assert (tmp_path / "disk" / "b").read_bytes() == store.get("labels/b") == b"1"
    assert store.list("") == ["labels/b"]
    assert store.folders("") == ["labels"]
    store.delete("labels")
    store.delete("gone")
    assert os.listdir(tmp_path / "real") == []
    assert os.listdir(tmp_path / "disk") == ["b"]
