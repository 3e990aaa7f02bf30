"""Small Parquet files of the store; labels are in `storage.labels.label_files`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.store.store import Store

# Errors of pyarrow for bytes that are not Parquet; ValueError if the name of a column is not UTF-8.
UNREADABLE = (pa.ArrowException, OSError, ValueError)


def write_parquet(store: Store, path: str, table: pa.Table) -> None:
    """Write ``table`` to ``path`` atomically; each page has a checksum, which `read_parquet` verifies."""
    buffer = io.BytesIO()  # a failing writer into the store itself would leave a truncated file
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    store.put(path, buffer.getvalue())


def read_parquet(
    store: Store,
    path: str,
    *,
    columns: pa.Schema | None = None,
    named: str = "Parquet file",
    hint: str = "remove it",
) -> pa.Table:
    """Return the table at ``path``, with exactly ``columns``.

    ``named`` and ``hint`` are the expected kind of file and the remedy in the error message. McvrpError if it
    is missing or not readable.
    """
    data, url = store.get(path), store.url(path)
    with _unreadable(url, named, hint):
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
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
