"""The manifest of a dataset: derived from its files, of which only those are read whole that are unknown."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from mcvrp.storage import layout
from mcvrp.storage.driven import checksum
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_footer
from mcvrp.storage.labels.manifest import listed_sha256, read_manifest, rebuild_manifest
from mcvrp.storage.store.store import Store
from tests.support.datasets import fill

PATH = layout.manifest("d")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the label files that are read whole."""
    paths, get = list[str](), Store.get

    def noted(self: Store, path: str, start: int = 0, stop: int | None = None) -> bytes:
        if path.endswith(".parquet") and stop is None:
            paths.append(path)
        return get(self, path, start, stop)

    monkeypatch.setattr(Store, "get", noted)
    return paths


def test_the_manifest_is_derived(store: Store) -> None:
    paths = fill(store, 0, 4, 6)
    manifest = rebuild_manifest(Dataset.open(store, "d"))
    whole = store.get(PATH)
    assert read_manifest(store, "d") == manifest
    assert (manifest["rows"], manifest["absent"]) == (6, 0)
    assert {path: file["sha256"] for path, file in manifest["files"].items()} == {
        path: hashlib.sha256(store.get(path)).hexdigest() for path in paths
    }
    assert manifest["bytes"] == sum(map(store.size, paths))
    assert manifest["fingerprint"] == Dataset.open(store, "d").fingerprint()
    for data in (b"", b"[]", b'{"files": [1]}', whole):
        store.put(PATH, data)
        rebuild_manifest(Dataset.open(store, "d"))
        assert store.get(PATH) == whole
    fill(store, 6, 7)
    assert rebuild_manifest(Dataset.open(store, "d"))["rows"] == 7


def test_only_unknown_files_are_read_whole(store: Store, read: list[str]) -> None:
    """Those that a run has created are known; one that was removed and made again has another footer."""
    first, second = fill(store, 0, 4, 6)
    rebuild_manifest(Dataset.open(store, "d"), {first: checksum(store.get(first))})
    assert read == [first, second]  # the first by this test
    read.clear()
    rebuild_manifest(Dataset.open(store, "d"))
    assert read == []
    fill(store, 4, 6, runtime=0.2)
    manifest = rebuild_manifest(Dataset.open(store, "d"))
    assert read == [second]
    assert manifest["files"][second]["sha256"] == checksum(store.get(second))
    footer = read_footer(store, second)
    assert listed_sha256(manifest, second, footer) == checksum(store.get(second))
    assert listed_sha256(manifest, second, replace(footer, figures="other")) == ""
