"""Small Parquet files of the store; labels are in `storage.labels.label_files`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import Schema

# Errors of pyarrow for bytes that are not Parquet; ValueError if the name of a column is not UTF-8.
UNREADABLE = (pa.ArrowException, OSError, ValueError)
_VERSION = b"mcvrp_schema_version"  # in the footer of a file with a schema


def write_parquet(store: Store, path: str, table: pa.Table, schema: Schema | None = None) -> None:
    """Write ``table`` to ``path`` atomically, with the version of ``schema`` in its footer.

    Each page has a checksum, which `read_parquet` verifies.
    """
    if schema is not None:
        metadata = {**(table.schema.metadata or {}), _VERSION: str(schema.version).encode()}
        table = table.replace_schema_metadata(metadata)
    buffer = io.BytesIO()  # a failing writer into the store itself would leave a truncated file
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    store.put(path, buffer.getvalue())


def read_parquet(
    store: Store,
    path: str,
    schema: Schema | None = None,
    *,
    columns: pa.Schema | None = None,
    named: str = "Parquet file",
    hint: str = "remove it",
) -> pa.Table:
    """Return the table at ``path``, whose footer has the version of ``schema``, with exactly ``columns``.

    ``named`` and ``hint`` are the expected kind of file and the remedy in the error message. TooNew if a
    newer version of mcvrp wrote it, McvrpError if it is missing or not readable.
    """
    data, url = store.get(path), store.url(path)
    with _unreadable(url, named, hint):
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        if schema is not None:
            metadata = dict(table.schema.metadata or {})
            schema.require_readable(int(metadata.pop(_VERSION, b"1")), url)
            table = table.replace_schema_metadata(metadata or None)
        if columns is not None and not table.schema.equals(columns):
            raise ValueError(f"it has other columns than {', '.join(columns.names)}")
        return table


def parquet_batches(store: Store, path: str, rows: int, *, named: str, hint: str) -> Iterator[pa.RecordBatch]:
    """Yield the table at ``path`` in batches of ``rows`` rows; errors as `read_parquet`."""
    data = store.get(path)
    with _unreadable(store.url(path), named, hint):
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        yield from file.iter_batches(rows)


@contextlib.contextmanager
def _unreadable(url: str, named: str, hint: str) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise McvrpError(f"{url} is not a readable {named} ({reason(error)}): {hint}") from error
