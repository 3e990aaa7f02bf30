"""The manifest of a dataset: derived from its files."""

from __future__ import annotations

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.store.store import Store
from tests.support.datasets import fill

PATH = layout.manifest("d")


def test_the_manifest_is_derived(store: Store) -> None:
    paths = fill(store, 0, 4, 6)
    manifest = rebuild_manifest(Dataset.open(store, "d"))
    whole = store.get(PATH)
    assert store.get_json(PATH) == manifest
    assert (manifest["rows"], manifest["absent"]) == (6, 0)
    assert manifest["bytes"] == sum(map(store.size, paths))
    assert manifest["fingerprint"] == Dataset.open(store, "d").fingerprint()
    for data in (b"", whole):
        store.put(PATH, data)
        rebuild_manifest(Dataset.open(store, "d"))
        assert store.get(PATH) == whole
    fill(store, 6, 7)
    assert rebuild_manifest(Dataset.open(store, "d"))["rows"] == 7
