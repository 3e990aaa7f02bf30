"""Datasets of labels in the store: shards of rows by size, whole or absent, proved before written."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, reason
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.schema import (
    MADE_BY,
    SCHEMA,
    Columns,
    Footer,
    Label,
    content_hash,
    label_table,
    makers_hash,
    prove,
    table_labels,
)
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import refuse_earlier

ROW_GROUP = 4096  # rows that are read or lost together
_READERS = 8  # threads that read footers: each waits for the store, not for the processor
_BATCH = 8  # footers that a thread reads in a row
_TAIL = 2**16  # bytes: most footers are shorter
_MAGIC = b"PAR1"
HINT = "remove it and label again"  # ends what is said of a corrupt file


class CorruptFile(McvrpError):
    """A file of labels is truncated or corrupt; the message names it."""


@dataclass(frozen=True)
class LabelFile:
    """A file of labels: where it is, and what its footer says."""

    path: str
    footer: Footer


@dataclass(frozen=True)
class LabelTable:
    """The labels of one size, N of them, with their costs; what training reads is `storage.labels.flat`.

    Parameters
    ----------
    n
        Customers an instance.
    ids
        Node numbers, ascending, uint16 or uint32 ``(N, n)``.
    demands
        Demand of each, uint8 or uint16 ``(N, n)``.
    capacities
        What a vehicle holds, uint32 ``(N,)``.
    paths
        The canonical sequences 0, route, 0, ..., 0 of all rows, on end, of the type of ``ids``.
    offsets
        Row r is ``paths[offsets[r]:offsets[r + 1]]``, int64 ``(N + 1,)``.
    costs
        Cost of each in the city's unit, float64 ``(N,)``.
    """

    n: int
    ids: NDArray[np.unsignedinteger]
    demands: NDArray[np.unsignedinteger]
    capacities: NDArray[np.uint32]
    paths: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    costs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)


def write_labels(store: Store, path: str, city: City, spec_hash: str, labels: Sequence[Label]) -> LabelFile:
    """Write ``labels``, consecutive rows of one size, at ``path``, once each is proved right."""
    return write_table(store, path, city, spec_hash, labels[0].instance.n, label_table(labels))


def write_table(
    store: Store,
    path: str,
    city: City,
    spec_hash: str,
    n: int,
    table: pa.Table,
    absent: Sequence[int] = (),
) -> LabelFile:
    """Write ``table``, rows of size ``n`` that with ``absent`` are consecutive, at ``path``.

    Raises
    ------
    McvrpError
        If a row does not serve its instance, costs something else, or the rows have gaps.
    """
    data, footer = label_file(city, spec_hash, n, table, absent)
    store.put(path, data)
    return LabelFile(path, footer)


def label_file(
    city: City, spec_hash: str, n: int, table: pa.Table, absent: Sequence[int] = ()
) -> tuple[bytes, Footer]:
    """Return the file with the rows of `write_table`, proved from its own bytes, and its footer."""
    columns = Columns.of(table, n)
    missing = np.asarray(sorted(absent), dtype=np.int64)
    rows = np.sort(np.concatenate([columns.index, missing]))
    if not len(rows) or (np.diff(rows) != 1).any() or (np.diff(columns.index) <= 0).any():
        raise McvrpError(
            f"the rows of n={n} that were to be written are not consecutive: this is a fault of the program"
        )
    prove(city, n, columns)
    first, last = int(rows[0]), int(rows[-1])
    content, makers = content_hash(columns), makers_hash(table)
    footer = Footer(spec_hash, city.city_id, n, first, last + 1, content, tuple(missing.tolist()), makers)
    buffer = io.BytesIO()
    table = table.cast(SCHEMA)
    pq.write_table(
        table.replace_schema_metadata(footer.metadata()),
        buffer,
        compression="zstd",
        use_dictionary=list(MADE_BY),
        row_group_size=ROW_GROUP,
        write_page_checksum=True,
    )
    data = buffer.getvalue()
    if parse_footer(data, "the new file") != footer or not parse_table(data, "the new file").equals(table):
        raise McvrpError(
            f"rows {first} to {last} of n={n} came back otherwise from the file made of them: "
            "check this machine's memory"
        )
    return data, footer


def read_footer(store: Store, path: str) -> Footer:
    """Return the footer of the label file at ``path``; only the end of the file is read.

    Raises
    ------
    CorruptFile
        If it is truncated.
    McvrpError
        If it is not a file of labels.
    """
    with store.open_input(path) as stream:
        size = stream.size()
        tail = stream.read_at(min(size, _TAIL), max(size - _TAIL, 0))
        length = int.from_bytes(tail[-8:-4], "little") + 8 + len(_MAGIC)
        if tail[-4:] == _MAGIC and _TAIL < length <= size:
            tail = stream.read_at(length, size - length)
    return parse_footer(tail, store.url(path))


def parse_footer(tail: bytes, where: str) -> Footer:
    """Return the footer in ``tail``, the end of a file of labels, whose address ``where`` is for people."""
    try:
        schema = pq.read_metadata(pa.BufferReader(tail)).schema.to_arrow_schema()
    except UNREADABLE as error:
        raise CorruptFile(f"{where} is no whole Parquet file ({reason(error)}): {HINT}") from error
    try:
        footer = Footer.of(schema.metadata, where)
    except (KeyError, ValueError) as error:
        raise McvrpError(
            f"{where} is a Parquet file but not one of labels ({reason(error)}): move it away"
        ) from error
    if footer is None or not schema.remove_metadata().equals(SCHEMA):
        raise CorruptFile(f"{where} has a corrupt footer: {HINT}")
    return footer


def read_table(store: Store, path: str) -> pa.Table:
    """Return the rows of the label file at ``path``; CorruptFile if a page's checksum is not right."""
    return parse_table(store.get(path), store.url(path))


def parse_table(data: bytes, where: str) -> pa.Table:
    """Return the rows of the file of labels whose bytes are ``data``; errors as in `read_table`."""
    footer = parse_footer(data, where)
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        table.validate(full=True)
    except UNREADABLE as error:
        raise CorruptFile(f"{where} is corrupt ({reason(error)}): {HINT}") from error
    if table.num_rows != footer.rows:
        raise CorruptFile(f"{where} has {table.num_rows} rows, its footer says {footer.rows}: {HINT}")
    return table


def read_files(store: Store, paths: Iterable[str], *, skip_corrupt: bool = False) -> Iterator[LabelFile]:
    """Yield the footers of the label files at ``paths``, in order, a few of them read ahead.

    Raises
    ------
    McvrpError
        As `read_footer`; with ``skip_corrupt`` a CorruptFile is left out instead.
    """
    with ThreadPoolExecutor(_READERS) as readers:
        ahead: deque[Future[list[LabelFile | CorruptFile]]] = deque()
        waiting = iter(paths)
        while batch := list(islice(waiting, _BATCH)):
            ahead.append(readers.submit(_read_batch, store, batch))
            if len(ahead) > _READERS:
                yield from _whole(ahead.popleft().result(), skip_corrupt)
        while ahead:
            yield from _whole(ahead.popleft().result(), skip_corrupt)


def _read_batch(store: Store, paths: Sequence[str]) -> list[LabelFile | CorruptFile]:
    found: list[LabelFile | CorruptFile] = []
    for path in paths:
        try:
            found.append(LabelFile(path, read_footer(store, path)))
        except CorruptFile as error:
            found.append(error)
    return found


def _whole(files: Sequence[LabelFile | CorruptFile], skip_corrupt: bool) -> Iterator[LabelFile]:
    for file in files:
        if isinstance(file, LabelFile):
            yield file
        elif not skip_corrupt:
            raise file


def sizes(store: Store, dataset: str) -> list[int]:
    """Return the sizes of ``dataset`` that have a folder, ascending; see `refuse_earlier` too."""
    refuse_earlier(store, layout.label_dir(dataset))
    found = (layout.size_of(name) for name in store.folders(layout.label_dir(dataset)))
    return sorted(n for n in found if n is not None)


def shards(
    store: Store, dataset: str, n: int | None = None, *, skip_corrupt: bool = False
) -> Iterator[LabelFile]:
    """Yield the shards of ``dataset``, of size ``n`` or of all, by size and row.

    Raises
    ------
    McvrpError
        If a file where a shard should be is truncated (``skip_corrupt`` leaves such out), foreign,
        or says that it is another.
    """
    for size in sizes(store, dataset) if n is None else [n]:
        found = {}
        for path in store.list(layout.size_dir(dataset, size)):
            if path.endswith(".parquet"):
                k = layout.shard_number(path)
                if k is None or path != layout.label_shard(dataset, size, k):
                    raise McvrpError(f"{store.url(path)} is no shard's name for n={size}: move it away")
                found[k] = path
        for file in read_files(store, (found[k] for k in sorted(found)), skip_corrupt=skip_corrupt):
            if file.footer.n != size:
                raise McvrpError(
                    f"{store.url(file.path)} has labels of n={file.footer.n}, this place is for n={size}: "
                    "move it away"
                )
            yield file


def require_city(store: Store, shard: LabelFile, city: City) -> None:
    """Raise McvrpError if the labels of ``shard`` do not hold in ``city``: they are of another one.

    Those of a city that ``city`` extends hold: its nodes are where they were, at the same costs.
    """
    if not city.accepts(shard.footer.city_id):
        raise McvrpError(
            f"the labels {store.url(shard.path)} are of city {shard.footer.city_id}, "
            f"not of city {city.city_id}"
        )


def read_rows(store: Store, dataset: str, n: int, limit: int | None = None) -> Iterator[pa.Table]:
    """Yield the labels of size ``n``, the first ``limit`` of them or all, a table a shard.

    Rows that a shard declares absent are left out: a label's row counts the labels before it.

    Raises
    ------
    McvrpError
        If rows are missing; names them.
    """
    there = stop = 0
    for shard in shards(store, dataset, n):
        if (limit is not None and there >= limit) or shard.footer.row_start != stop:
            break
        yield read_table(store, shard.path).slice(0, None if limit is None else limit - there)
        there += shard.footer.rows
        stop = shard.footer.row_stop
    wanted = max(1 if limit is None else limit, 1)
    if there < wanted:
        raise McvrpError(
            f"dataset {dataset!r} in {store.url()} has {there} of the {wanted} labels of n={n}: "
            "run mcvrp label"
        )


def load_labels(store: Store, dataset: str, n: int, limit: int | None = None) -> LabelTable:
    """Return the labels of size ``n``, the first ``limit`` of them or all.

    Raises
    ------
    McvrpError
        As `read_rows` does.
    """
    columns = Columns.of(pa.concat_tables(list(read_rows(store, dataset, n, limit))), n)
    paths, offsets = columns.paths()
    id_type = np.uint16 if columns.ids.max(initial=0) < 2**16 else np.uint32
    demand_type = np.uint8 if columns.demands.max(initial=0) < 2**8 else np.uint16
    return LabelTable(
        n=n,
        ids=columns.ids.astype(id_type),
        demands=columns.demands.astype(demand_type),
        capacities=columns.capacities,
        paths=paths.astype(id_type),
        offsets=offsets,
        costs=columns.costs,
    )


# One label of a dataset, found by its instance


def load_label(store: Store, dataset: str, n: int, i: int) -> Label:
    """Return the label of instance (``n``, ``i``) in ``dataset``.

    Raises
    ------
    McvrpError
        If there is none, or its file is corrupt.
    """
    there = list(shards(store, dataset, n))
    for shard in there:
        if shard.footer.row_start <= i < shard.footer.row_stop and i not in shard.footer.absent:
            return _read(store, shard, i)
    rows = sum(shard.footer.rows for shard in there)
    raise McvrpError(
        f"dataset {dataset!r} has no label of instance (n={n}, i={i}): it has {rows:,} labels of n={n}, "
        "i counts from 0"
    )


def _read(store: Store, shard: LabelFile, i: int) -> Label:
    row = i - shard.footer.row_start - sum(absent < i for absent in shard.footer.absent)
    try:
        with store.open_input(shard.path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if row < rows:
                    table = file.read_row_group(group).slice(row, 1)
                    return next(table_labels(table, shard.footer.city_id))
                row -= rows
    except UNREADABLE as error:
        raise CorruptFile(
            f"{store.url(shard.path)} is corrupt ({reason(error)}): run mcvrp verify"
        ) from error
    raise CorruptFile(f"{store.url(shard.path)} has fewer rows than its footer says: run mcvrp verify")
