"""A folder in the place of a file is refused in a sentence; links are followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store, StoreError


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
