"""Label files: rows of one size in Parquet, checked before they are written, whole or absent."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.model.errors import McvrpError, reason
from mcvrp.model.problem import City
from mcvrp.storage.labels.arrays import LabelArrays, content_hash
from mcvrp.storage.labels.checks import require_sound
from mcvrp.storage.labels.schema import MADE_BY, SCHEMA, Footer, Label, label_table
from mcvrp.storage.parquet import UNREADABLE
from mcvrp.storage.store.store import Store

ROW_GROUP = 4096  # rows that are read together
_FOOTER_BYTES = 65_536  # that are read at first: most footers are shorter
_CHECKSUM, _BLANK = b"checksum", b"-" * 32  # its key in the metadata, and its place until it is known


class CorruptFile(McvrpError):
    """A label file is truncated or corrupt; the message names it."""


def hint(where: str) -> str:
    """Return what to do about the corrupt file at ``where``, ``…/labels/DATASET/data/…``."""
    dataset = where.rpartition("/data/")[0].rpartition("/")[2]
    return f"mcvrp verify {dataset} --delete removes it, mcvrp label makes it again"


@dataclass(frozen=True)
class LabelFile:
    path: str
    footer: Footer
    bytes: int = 0


def write_labels(store: Store, path: str, city: City, spec_hash: str, labels: Sequence[Label]) -> None:
    """Check ``labels``, consecutive rows of one size, and create the file at ``path`` unless it exists."""
    store.put_new(path, label_file(city, spec_hash, labels[0].instance.n, label_table(labels)))


def label_file(
    city: City, spec_hash: str, n: int, table: pa.Table, absent: Mapping[int, str] | None = None
) -> bytes:
    """Return the bytes of a file of ``table``.

    The rows are of size ``n``, and consecutive together with those that are ``absent``, each with the reason.
    Raises McvrpError if a row is infeasible or has another cost, or if the rows have gaps.
    """
    labels, absent = LabelArrays.of(table, n), absent or {}
    rows = np.sort(np.concatenate([labels.index, np.array([*absent], dtype=np.int64)]))
    if not len(rows) or (np.diff(rows) != 1).any() or (np.diff(labels.index) <= 0).any():
        raise McvrpError(
            f"the rows of n={n} to be written are not consecutive, a bug in mcvrp: report it with the command"
        )
    require_sound(city, n, labels)
    first, last = int(rows[0]), int(rows[-1])
    footer = Footer(
        spec_hash=spec_hash,
        city_id=city.city_id,
        n=n,
        row_start=first,
        row_stop=last + 1,
        content=content_hash(labels),
        cost=float(labels.costs.sum()),
        routes=len(labels.row_of),
        runtime=float(table["runtime"].to_numpy().sum()),
        absent=dict(absent),
    )
    return checksummed(table.cast(SCHEMA).replace_schema_metadata(footer.metadata()))


def checksummed(table: pa.Table) -> bytes:
    """Return ``table`` as Parquet with the checksum of all other bytes in its metadata.

    Checksums of pages would leave out the statistics by which readers skip rows.
    """
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, compression="zstd", use_dictionary=list(MADE_BY)) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP)
        writer.add_key_value_metadata({_CHECKSUM: _BLANK})
    data = buffer.getvalue()
    place = data.rindex(_BLANK)
    return data[:place] + _checksum_of(data, place) + data[place + len(_BLANK) :]


def _checksum_of(data: bytes, place: int) -> bytes:
    """Return the checksum of ``data`` without that at ``place``."""
    view = memoryview(data)
    digest = hashlib.blake2b(view[:place], digest_size=len(_BLANK) // 2)
    digest.update(view[place + len(_BLANK) :])
    return digest.hexdigest().encode()


def read_footer(store: Store, path: str) -> Footer:
    """Return the footer of the label file at ``path``; only the end of the file is read.

    CorruptFile if the file is truncated or not a label file, another McvrpError if its version is newer.
    """
    data = store.get_end(path, _FOOTER_BYTES)
    length = int.from_bytes(data[-8:-4], "little") + 8  # Parquet: the footer, its length, and "PAR1"
    return parse_footer(data if length <= len(data) else store.get(path), store.url(path))


def parse_footer(data: bytes, where: str) -> Footer:
    """Return the footer of the label file whose bytes, or the last of them, are ``data``.

    Errors as in `read_footer`.
    """
    try:
        schema = pq.read_metadata(pa.BufferReader(data)).schema.to_arrow_schema()
    except UNREADABLE as error:
        raise CorruptFile(f"{where} is no whole Parquet file ({reason(error)}): {hint(where)}") from error
    try:
        footer = Footer.of(schema.metadata, where)
    except (KeyError, ValueError) as error:
        raise CorruptFile(
            f"{where} is a Parquet file but not a label file ({reason(error)}): {hint(where)}"
        ) from error
    if footer is None or not schema.remove_metadata().equals(SCHEMA):
        raise CorruptFile(f"{where} has a corrupt footer: {hint(where)}")
    return footer


def read_table(store: Store, path: str) -> pa.Table:
    """Return the rows of the label file at ``path``; CorruptFile if any of its bytes is wrong."""
    return parse_table(store.get(path), store.url(path))


def parse_table(data: bytes, where: str) -> pa.Table:
    """Return the rows of the label file whose bytes are ``data``; errors as in `read_table`."""
    footer = parse_footer(data, where)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        stored = file.metadata.metadata.get(_CHECKSUM, b"")
        place = data.rfind(stored)
        if len(stored) != len(_BLANK) or _checksum_of(data, place) != stored:
            raise ValueError("its checksum is wrong")
        table = file.read()
        table.validate(full=True)
    except UNREADABLE as error:
        raise CorruptFile(f"{where} is corrupt ({reason(error)}): {hint(where)}") from error
    if table.num_rows != footer.rows:
        raise CorruptFile(f"{where} has {table.num_rows} rows, its footer says {footer.rows}: {hint(where)}")
    return table
