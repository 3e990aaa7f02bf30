"""Parquet files of the store: small tables written whole, and read back or refused in a sentence.

Shards of labels, which are many and large, have a module of their own: `storage.labels.files`.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.store.errors import SPOILT
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
    buffer = io.BytesIO()
    table = table if schema is None else stamped(table, schema)
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=checksums)
    store.put(path, buffer.getvalue())


def read_parquet(
    store: Store,
    path: str,
    schema: Schema | None = None,
    *,
    named: str = "Parquet file",
    hint: str = "remove it",
) -> pa.Table:
    """Return the table at ``path``.

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
        return table if schema is None else require_readable_table(schema, table, store.url(path))
    except SPOILT as error:
        raise McvrpError(f"{store.url(path)} is no readable {named} ({reason(error)}): {hint}") from error
