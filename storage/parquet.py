"""Parquet files of the store: small tables written whole, and read back or refused in a sentence.

Shards of labels, which are many and large, have a module of their own: `storage.labels.label_files`.
"""

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
    """Write ``table`` to ``path``, whole or not at all.

    Parameters
    ----------
    schema
        The kind of document; its version goes into the footer.
    checksums
        Give each page a checksum, which `read_parquet` verifies.
    """
    buffer = io.BytesIO()  # a writer into the store itself would leave half a file where it fails
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
        The kind of document, whose version stands in the footer.
    columns
        Those that the table has to have.
    later
        Those of them that files of before do not have, and the value that fills them.
    named, hint
        What the file should be and what to do if it is none, for the message.

    Raises
    ------
    TooNew
        If a newer version of this program wrote it.
    McvrpError
        If it is absent or cannot be read as one: "... is no readable ``named`` (why): ``hint``".
    """
    data = store.get(path)
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        table = table if schema is None else require_readable_table(schema, table, store.url(path))
        return table if columns is None else _with(columns, table, later or {})
    except UNREADABLE as error:
        raise McvrpError(f"{store.url(path)} is no readable {named} ({reason(error)}): {hint}") from error


def _with(columns: pa.Schema, table: pa.Table, later: Mapping[str, object]) -> pa.Table:
    for place, column in enumerate(columns):
        if column.name in later and column.name not in table.column_names:
            table = table.add_column(place, column, pa.array([later[column.name]] * len(table), column.type))
    if not table.schema.equals(columns):
        raise ValueError(f"it has other columns than {', '.join(columns.names)}")
    return table
