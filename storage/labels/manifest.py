"""Manifest of a dataset: its totals and fingerprint, derived from the footers of its files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.provenance import FIELD, Provenance, provenance_in


def rebuild_manifest(dataset: Dataset, provenance: Provenance | None = None) -> dict[str, Any]:
    """Write the manifest of ``dataset`` from the footers of its files, and return it.

    The ``provenance`` of a dataset with a spec is in the spec.
    """
    store, name = dataset.store, dataset.name
    path = layout.label_spec(name)
    if store.exists(path):
        provenance = provenance_in(store.get_json(path))
    manifest = {
        "dataset": name,
        "fingerprint": dataset.fingerprint(),
        "rows": sum(file.footer.rows for file in dataset.label_files),
        "absent": sum(len(file.footer.absent) for file in dataset.label_files),
        "bytes": sum(file.bytes for file in dataset.label_files),
        FIELD: asdict(provenance) if provenance else None,
    }
    store.put_json(layout.manifest(name), manifest)
    return manifest
