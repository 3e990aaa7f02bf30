"""Small Parquet files of the store; shards of labels are in `storage.labels.label_files`."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import Schema, require_readable_table, stamped


def write_parquet(
    store: Store, path: str, table: pa.Table, schema: Schema | None = None, *, checksums: bool = False
) -> None:
    """Write ``table`` to ``path`` atomically.

    Parameters
    ----------
    schema
        Schema whose version is written to the footer.
    checksums
        Write a checksum per page, which `read_parquet` verifies.
    """
    buffer = io.BytesIO()  # a failing writer into the store itself would leave a truncated file
    table = table if schema is None else stamped(table, schema)
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=checksums)
    store.put(path, buffer.getvalue())


def read_parquet(
    store: Store,
    path: str,
    schema: Schema | None = None,
    *,
    columns: pa.Schema | None = None,
    later: Mapping[str, object] | None = None,
    named: str = "Parquet file",
    hint: str = "remove it",
) -> pa.Table:
    """Return the table at ``path``.

    Parameters
    ----------
    schema
        Schema whose version the footer has.
    columns
        Required columns.
    later
        Defaults of required columns that older files do not have.
    named, hint
        Expected kind of file and remedy, for the error message.

    Raises
    ------
    TooNew
        If a newer version of mcvrp wrote it.
    McvrpError
        If it is missing or not readable.
    """
    data = store.get(path)
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        table = table if schema is None else require_readable_table(schema, table, store.url(path))
        return table if columns is None else _with(columns, table, later or {})
    except UNREADABLE as error:
        raise McvrpError(f"{store.url(path)} is not a readable {named} ({reason(error)}): {hint}") from error


def _with(columns: pa.Schema, table: pa.Table, later: Mapping[str, object]) -> pa.Table:
    for k, column in enumerate(columns):
        if column.name in later and column.name not in table.column_names:
            table = table.add_column(k, column, pa.array([later[column.name]] * len(table), column.type))
    if not table.schema.equals(columns):
        raise ValueError(f"it has other columns than {', '.join(columns.names)}")
    return table
