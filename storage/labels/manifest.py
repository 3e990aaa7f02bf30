"""Manifest of a dataset: its totals, derived from the shards alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.shards import Fingerprint, Shard, write_list
from mcvrp.storage.provenance import FIELD, Provenance, provenance_in
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.versions import MANIFEST, TooNew

TOTALS = ("rows", "absent", "bytes", "shards")


def read_manifest(store: Store, dataset: str) -> dict[str, Any] | None:
    """Return the manifest of ``dataset``, None if there is none.

    Raises McvrpError if it is invalid, or was written by a newer version of mcvrp.
    """
    path = layout.manifest(dataset)
    if not store.exists(path):
        return None
    document = store.get_json(path)
    try:
        MANIFEST.require_readable(document.get(MANIFEST.field, 1), store.url(path))
        for total in TOTALS:
            if type(document.get(total, 0)) is not int:
                raise ValueError(f"{total} is {shown(document[total])}, expected an integer")
    except (ValueError, AttributeError) as error:
        raise McvrpError(f"{store.url(path)} is not a manifest ({error}): run mcvrp label") from error
    return dict(document)


def rebuild_manifest(
    store: Store, name: str, known: Dataset | None = None, provenance: Provenance | None = None
) -> None:
    """Rebuild the manifest and the list of shards of the dataset ``name`` from its shards.

    The ``provenance`` of a dataset with a spec is in the spec. Shards are read in parallel, each once. With
    ``known``, the open dataset, only those are read that are neither listed nor written by its workers.
    Raises TooNew if the existing manifest was written by a newer version of mcvrp.
    """
    try:
        read_manifest(store, name)
    except (StoreError, TooNew):
        raise
    except McvrpError:  # corrupt: it is replaced
        pass
    dataset = replace(known or Dataset.open(store, name, trust=False), checksums=True).listed()
    digest, totals = Fingerprint(), list[dict[str, int]]()

    def sizes() -> Iterator[list[Shard]]:
        for n in dataset.sizes():
            if files := list(dataset.shards(n)):
                digest.add(n, files)
                totals.append({"n": n, **_totals(files)})
                yield files

    write_list(store, name, sizes())
    path = layout.label_spec(name)
    spec = store.get_json(path) if store.exists(path) else None
    provenance = provenance_in(spec) or provenance
    store.put_json(
        layout.manifest(name),
        {
            "manifest_version": MANIFEST.version,
            "dataset": name,
            "fingerprint": digest.value,
            **{key: sum(size[key] for size in totals) for key in TOTALS},
            "sizes": totals,
            "spec": {key: spec[key] for key in spec if key != FIELD} if isinstance(spec, dict) else spec,
            FIELD: asdict(provenance) if provenance else None,
        },
    )


def _totals(shards: list[Shard]) -> dict[str, int]:
    return {
        "rows": sum(shard.footer.rows for shard in shards),
        "absent": sum(len(shard.footer.absent) for shard in shards),
        "bytes": sum(shard.bytes for shard in shards),
        "shards": len(shards),
    }
