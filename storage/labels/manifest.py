"""The manifest of a dataset: what its shards hold, derived from them and from nothing else.

Totals are a JSON document for people, the shards with their checksums a Parquet file: there may be
very many, and none of what reads or writes them holds more than those of one size.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.labels.files import LabelFile, shards, sizes
from mcvrp.storage.labels.schema import add_contents
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.versions import MANIFEST, TooNew, require_readable

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("n", pa.uint32(), nullable=False),
        pa.field("row_start", pa.uint32(), nullable=False),
        pa.field("row_stop", pa.uint32(), nullable=False),
        pa.field("rows", pa.uint32(), nullable=False),
        pa.field("bytes", pa.uint64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
        pa.field("content", pa.string(), nullable=False),
        pa.field("makers", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class ShardEntry:
    """One shard as the manifest lists it: its rows, bytes and checksums.

    ``rows`` are those of ``row_start`` to ``row_stop`` (excluded) that have a label.
    """

    path: str
    n: int
    row_start: int
    row_stop: int
    rows: int
    bytes: int
    sha256: str
    content: str
    makers: str


def entries(store: Store, dataset: str, n: int | None = None) -> Iterator[ShardEntry]:
    """Yield the shards that the manifest of ``dataset`` lists, of size ``n`` or of all, by size and row.

    Raises
    ------
    McvrpError
        If there is no list, or it is corrupt: `rebuild_manifest` makes it anew.
    """
    path = layout.shard_list(dataset)
    data = store.get(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        if not file.schema_arrow.equals(_SCHEMA):
            raise ValueError("other columns")
        for k in range(file.num_row_groups):
            group = file.metadata.row_group(k)
            if n is None or (group.num_rows and group.column(1).statistics.min == n):  # a group a size
                for row in file.read_row_group(k).to_pylist():
                    yield ShardEntry(**row)
    except UNREADABLE as error:
        raise McvrpError(
            f"{store.url(path)} is no list of shards ({reason(error)}): run mcvrp label, which makes it anew"
        ) from error


def read_manifest(store: Store, dataset: str) -> dict[str, Any] | None:
    """Return the totals of ``dataset`` as its manifest has them, None where there is none.

    Raises
    ------
    McvrpError
        If it is none, or was written by a newer version of this program.
    """
    path = layout.manifest(dataset)
    if not store.exists(path):
        return None
    document = store.get_json(path)
    try:
        require_readable(MANIFEST, document, store.url(path))
    except (ValueError, AttributeError) as error:
        raise McvrpError(f"{store.url(path)} is no manifest ({error}): run mcvrp label") from error
    return dict(document)


def rebuild_manifest(store: Store, dataset: str, *, trust: bool = False) -> None:
    """Write the manifest of ``dataset`` anew from its shards.

    Parameters
    ----------
    trust
        Take the checksum of a shard from the manifest that is there, when rows, size and hashes are
        still the same, and read only the others.

    Raises
    ------
    TooNew
        If the one that is there was written by a newer version of this program.
    """
    _check_not_newer(store, dataset)
    digest = _Fingerprint()
    totals: list[dict[str, int]] = []
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, _SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for n in sizes(store, dataset):
            known = _known(store, dataset, n) if trust else {}
            files = list(shards(store, dataset, n))
            if not files:
                continue
            listed = [_entry(store, file, known.get(file.path)) for file in files]
            columns = {name: [getattr(entry, name) for entry in listed] for name in _SCHEMA.names}
            writer.write_table(pa.table(columns, schema=_SCHEMA), row_group_size=len(listed))
            digest.add(n, files)
            totals.append(
                {
                    "n": n,
                    "rows": sum(entry.rows for entry in listed),
                    "absent": sum(len(file.footer.absent) for file in files),
                    "bytes": sum(entry.bytes for entry in listed),
                    "shards": len(listed),
                }
            )
    store.put(layout.shard_list(dataset), buffer.getvalue())
    spec = layout.label_spec(dataset)
    store.put_json(
        layout.manifest(dataset),
        {
            "manifest_version": MANIFEST.version,
            "dataset": dataset,
            "fingerprint": digest.value,
            **{key: sum(size[key] for size in totals) for key in ("rows", "absent", "bytes", "shards")},
            "sizes": totals,
            "spec": store.get_json(spec) if store.exists(spec) else None,
        },
    )


def fingerprint(store: Store, dataset: str) -> str:
    """Return a hash of what ``dataset`` holds: city, instances and routes.

    It depends on the rows alone: neither on how they are split into shards, nor on who solved
    them and how long that took. Only footers are read.
    """
    digest = _Fingerprint()
    for n in sizes(store, dataset):
        if files := list(shards(store, dataset, n)):
            digest.add(n, files)
    return digest.value


def _check_not_newer(store: Store, dataset: str) -> None:
    try:
        read_manifest(store, dataset)
    except (StoreError, TooNew):
        raise
    except McvrpError:  # corrupt: it is made anew
        pass


class _Fingerprint:
    def __init__(self) -> None:
        self._digest = hashlib.sha256(b"mcvrp-labels-1")

    def add(self, n: int, files: list[LabelFile]) -> None:
        cities = ",".join(sorted({file.footer.city_id for file in files}))
        content = add_contents([file.footer.content for file in files])
        rows = sum(file.footer.rows for file in files)
        self._digest.update(f"{n} {rows} {cities} {content}\n".encode())

    @property
    def value(self) -> str:
        return self._digest.hexdigest()[:32]


def _entry(store: Store, file: LabelFile, known: ShardEntry | None) -> ShardEntry:
    footer, size = file.footer, store.size(file.path)
    rows = (footer.n, footer.row_start, footer.row_stop, footer.rows)
    if known and (known.n, known.row_start, known.row_stop, known.rows) == rows:  # noqa: SIM102
        if (known.bytes, known.content, known.makers) == (size, footer.content, footer.makers):
            return known
    sha256 = hashlib.sha256(store.get(file.path)).hexdigest()
    return ShardEntry(file.path, *rows, size, sha256, footer.content, footer.makers)


def _known(store: Store, dataset: str, n: int) -> dict[str, ShardEntry]:
    path = layout.shard_list(dataset)
    if not store.exists(path):
        return {}
    try:
        return {entry.path: entry for entry in entries(store, dataset, n)}
    except Exception:  # derived data: whatever is wrong with it, it is made anew
        return {}
