"""The manifest of a dataset: what its shards hold, derived from them and from nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from storage import layout
from storage.labels import LabelFile, shards
from storage.schemas import add_contents
from storage.store import Store

MANIFEST_VERSION = 1


@dataclass(frozen=True)
class ShardEntry:
    """One shard as the manifest lists it: its rows, bytes and checksums."""

    path: str
    n: int
    row_start: int
    row_stop: int
    bytes: int
    sha256: str
    content: str


def rebuild_manifest(store: Store, dataset: str, *, trust: bool = False) -> None:
    """Write the manifest of ``dataset`` anew from its shards.

    Parameters
    ----------
    trust
        Take the checksum of a shard from the manifest that is there, when rows, size and content
        hash are still the same, and read only the others.
    """
    files = shards(store, dataset)
    known = _known(store, dataset) if trust else {}
    entries = [_entry(store, file, known.get(file.path)) for file in files]
    spec = layout.label_spec(dataset)
    store.put_json(
        layout.manifest(dataset),
        {
            "manifest_version": MANIFEST_VERSION,
            "dataset": dataset,
            "fingerprint": _fingerprint(files),
            "rows": sum(entry.row_stop - entry.row_start for entry in entries),
            "bytes": sum(entry.bytes for entry in entries),
            "spec": store.get_json(spec) if store.exists(spec) else None,
            "shards": [asdict(entry) for entry in entries],
        },
    )


def fingerprint(store: Store, dataset: str) -> str:
    """Return a hash of what ``dataset`` holds: city, instances and routes.

    It depends on the rows alone: neither on how they are split into shards, nor on who solved
    them and how long that took. Only footers are read.
    """
    return _fingerprint(shards(store, dataset))


def _fingerprint(files: list[LabelFile]) -> str:
    digest = hashlib.sha256(b"mcvrp-labels-1")
    for n in sorted({file.footer.n for file in files}):
        footers = [file.footer for file in files if file.footer.n == n]
        cities = ",".join(sorted({footer.city_id for footer in footers}))
        content = add_contents([footer.content for footer in footers])
        digest.update(f"{n} {sum(f.rows for f in footers)} {cities} {content}\n".encode())
    return digest.hexdigest()[:32]


def _entry(store: Store, file: LabelFile, known: ShardEntry | None) -> ShardEntry:
    footer, size = file.footer, store.size(file.path)
    rows = (footer.n, footer.row_start, footer.row_stop)
    if known and (known.n, known.row_start, known.row_stop) == rows:  # noqa: SIM102
        if (known.bytes, known.content) == (size, footer.content):
            return known
    sha256 = hashlib.sha256(store.get(file.path)).hexdigest()
    return ShardEntry(file.path, *rows, size, sha256, footer.content)


def _known(store: Store, dataset: str) -> dict[str, ShardEntry]:
    path = layout.manifest(dataset)
    if not store.exists(path):
        return {}
    try:
        return {entry["path"]: ShardEntry(**entry) for entry in store.get_json(path)["shards"]}
    except Exception:  # derived data: whatever is wrong with it, it is made anew
        return {}
