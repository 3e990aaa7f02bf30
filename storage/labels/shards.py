"""List of the shards of a dataset: the footer and a checksum of each, derived from the shards.

With the list no footer has to be read, as long as the store lists the same files (size and time). It is
Parquet with one row group per size: there may be very many shards, and only those of one size are in memory.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import add_contents
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.labels.statistics import ShardFigures
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import LABEL

_OF_FILE = ("path", "bytes", "modified", "sha256")
_FOOTER = tuple(field.name for field in fields(Footer) if field.name != "schema_version")
_OF_FOOTER = {
    "n": pa.uint32(),
    "row_start": pa.uint32(),
    "row_stop": pa.uint32(),
    "absent": pa.list_(pa.uint32()),
}
_COLUMNS = {
    "path": pa.string(),
    "rows": pa.uint32(),  # redundant, for readers of the file
    "bytes": pa.uint64(),
    "modified": pa.float64(),
    "sha256": pa.string(),
    **{name: _OF_FOOTER.get(name, pa.string()) for name in _FOOTER},
}
_SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()],
    metadata={b"label_version": str(LABEL.version).encode()},
)


@dataclass(frozen=True)
class Shard(LabelFile):
    """A shard: its file as listed by the store, its checksum, "" if unknown, and figures from its writer."""

    bytes: int
    modified: float
    sha256: str = ""
    figures: ShardFigures | None = field(default=None, compare=False, repr=False)


class ShardList:
    """List of the shards of ``dataset``, ``written`` in seconds since 1970 by the clock of the store."""

    def __init__(self, store: Store, dataset: str) -> None:
        """Read the list; McvrpError if there is none, or it is corrupt."""
        self._path, self._url = layout.shard_list(dataset), store.url(layout.shard_list(dataset))
        stored = store.stat(self._path)  # before its bytes: a list replaced in between gets the older time
        self.written = stored.modified if stored else 0.0
        data = store.get(self._path)
        try:
            self._file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            schema, metadata = self._file.schema_arrow, self._file.metadata
            if not schema.equals(_SCHEMA) or schema.metadata != _SCHEMA.metadata:
                raise ValueError("it has other columns")
            # Values, not column statistics: PyArrow aborts the process if those of a footer are corrupt.
            sizes = self._file.read(columns=["n"])["n"].to_pylist()
            rows = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
            first = accumulate(rows[:-1], initial=0)
            self._groups = {sizes[row]: k for k, row in enumerate(first)} if rows else {}
        except (*UNREADABLE, IndexError) as error:
            raise self._corrupt(error) from error

    def __iter__(self) -> Iterator[Shard]:
        """Yield all shards by size and row; McvrpError if a part of the list is corrupt."""
        for n in self._groups:
            yield from self.of_size(n)

    def of_size(self, n: int) -> Iterator[Shard]:
        """Yield the shards of size ``n`` by row; McvrpError if that part of the list is corrupt."""
        if n in self._groups:
            try:
                rows = self._file.read_row_group(self._groups[n]).to_pylist()
            except UNREADABLE as error:
                raise self._corrupt(error) from error
            for row in rows:
                row["absent"] = tuple(row["absent"])
                footer = Footer(**{name: row[name] for name in _FOOTER})
                yield Shard(row["path"], footer, row["bytes"], row["modified"], row["sha256"])

    def _corrupt(self, error: Exception) -> McvrpError:
        return McvrpError(
            f"{self._url} is not a list of shards ({reason(error)}): run mcvrp label, which rebuilds it"
        )


def write_list(store: Store, dataset: str, sizes: Iterable[Sequence[Shard]]) -> None:
    """Write the list of ``dataset`` from the shards of each size, at least one, by row."""
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, _SCHEMA, compression="zstd", write_page_checksum=True) as writer:
        for shards in sizes:
            rows = [{name: getattr(shard, name) for name in _OF_FILE} for shard in shards]
            for row, shard in zip(rows, shards, strict=True):
                row |= {name: getattr(shard.footer, name) for name in ("rows", *_FOOTER)}
            writer.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), row_group_size=len(shards))
    store.put(layout.shard_list(dataset), buffer.getvalue())


class Fingerprint:
    """Hash of city, instances and routes of a dataset, size by size.

    Depends neither on the split into shards nor on the solvers and their runtime.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256(b"mcvrp-labels-1")

    def add(self, n: int, files: Sequence[LabelFile]) -> None:
        """Add all files of size ``n``, sizes ascending."""
        cities = ",".join(sorted({file.footer.city_id for file in files}))
        content = add_contents([file.footer.content for file in files])
        rows = sum(file.footer.rows for file in files)
        self._digest.update(f"{n} {rows} {cities} {content}\n".encode())

    @property
    def value(self) -> str:
        """Hash of everything added so far."""
        return self._digest.hexdigest()[:32]
