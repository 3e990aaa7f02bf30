"""Manifest of a dataset: its totals, and size and checksums of each file, derived from the files alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.provenance import FIELD, Provenance, provenance_in
from mcvrp.storage.store.store import Store, StoreError


def read_manifest(store: Store, dataset: str) -> dict[str, Any] | None:
    """Return the manifest of ``dataset``, None if there is none; McvrpError if it is invalid."""
    path = layout.manifest(dataset)
    if not store.exists(path):
        return None
    document = store.get_json(path)
    if not isinstance(document, dict) or not isinstance(document.get("files"), dict):
        raise McvrpError(f"{store.url(path)} is not a manifest: run mcvrp label with its preset")
    return document


def listed_sha256(manifest: Mapping[str, Any] | None, path: str, footer: Footer) -> str:
    """Return the SHA-256 of the file at ``path`` with ``footer`` in ``manifest``, "" if it has another."""
    file = (manifest or {}).get("files", {}).get(path, {})
    return str(file.get("sha256", "")) if file.get("footer") == footer.check else ""


def rebuild_manifest(
    dataset: Dataset,
    known: Mapping[str, str] | None = None,
    provenance: Provenance | None = None,
) -> dict[str, Any]:
    """Write the manifest of ``dataset`` from the footers of its files, and return it.

    ``known`` are the SHA-256 of some files by path; those of the others are taken from the last manifest,
    if the file is the same, or computed. The ``provenance`` of a dataset with a spec is in the spec.
    """
    store, name = dataset.store, dataset.name
    try:
        last = read_manifest(store, name)
    except StoreError:
        raise
    except McvrpError:  # corrupt: it is replaced
        last = None
    files = dict[str, dict[str, Any]]()
    for file in dataset.label_files:
        sha256 = (known or {}).get(file.path) or listed_sha256(last, file.path, file.footer)
        sha256 = sha256 or hashlib.sha256(store.get(file.path)).hexdigest()
        files[file.path] = {"bytes": file.bytes, "footer": file.footer.check, "sha256": sha256}
    path = layout.label_spec(name)
    spec = store.get_json(path) if store.exists(path) else None
    provenance = provenance_in(spec) or provenance
    manifest = {
        "dataset": name,
        "fingerprint": dataset.fingerprint(),
        "rows": sum(file.footer.rows for file in dataset.label_files),
        "absent": sum(len(file.footer.absent) for file in dataset.label_files),
        "bytes": sum(file.bytes for file in dataset.label_files),
        "files": files,
        "spec": {key: spec[key] for key in spec if key != FIELD} if isinstance(spec, dict) else spec,
        FIELD: asdict(provenance) if provenance else None,
    }
    store.put_json(layout.manifest(name), manifest)
    return manifest
