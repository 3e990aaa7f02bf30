"""Datasets of labels in the store: shards of rows by size, whole or absent, proved before written."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from model.errors import McvrpError
from model.problem import City
from storage import layout
from storage.schemas import SCHEMA, Columns, Footer, Label, content_hash, label_table, prove
from storage.store import Store

_READERS = 8  # threads that read footers: each waits for the store, not for the processor


@dataclass(frozen=True)
class LabelFile:
    """A file of labels: where it is, and what its footer says."""

    path: str
    footer: Footer


@dataclass(frozen=True)
class LabelTable:
    """The labels of one size, N of them, as training reads them.

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


def write_table(store: Store, path: str, city: City, spec_hash: str, n: int, table: pa.Table) -> LabelFile:
    """Write ``table``, consecutive rows of size ``n``, at ``path``, once each is proved right.

    Raises
    ------
    McvrpError
        If a row does not serve its instance, costs something else, or the rows have gaps.
    """
    columns = Columns.of(table, n)
    start = int(columns.index[0])
    if not np.array_equal(columns.index, np.arange(start, start + len(columns.index))):
        raise McvrpError(f"the rows for {store.url(path)} are not consecutive")
    prove(city, n, columns)
    footer = Footer(spec_hash, city.city_id, n, start, start + len(columns.index), content_hash(columns))
    buffer = io.BytesIO()
    schema = SCHEMA.with_metadata(footer.metadata())
    pq.write_table(table.cast(schema), buffer, compression="zstd", use_dictionary=_TEXT_COLUMNS)
    store.put(path, buffer.getvalue())
    return LabelFile(path, footer)


_TEXT_COLUMNS = ["source", "solver", "version", "budget"]


def read_footer(store: Store, path: str) -> Footer:
    """Return the footer of the label file at ``path``.

    Raises
    ------
    McvrpError
        If it is truncated, or not a file of labels.
    """
    with store.open_input(path) as stream:
        try:
            schema = pq.ParquetFile(stream).schema_arrow
            footer = Footer.of(schema.metadata)
        except (pa.ArrowException, OSError) as error:
            raise McvrpError(
                f"{store.url(path)} is no whole Parquet file ({_first_line(error)}): "
                "remove it and label again"
            ) from error
        except (KeyError, ValueError) as error:
            raise McvrpError(
                f"{store.url(path)} is a Parquet file but not one of labels ({_first_line(error)}): "
                "move it away"
            ) from error
    if not schema.remove_metadata().equals(SCHEMA):
        raise McvrpError(f"{store.url(path)} has not the columns of a label file: move it away")
    return footer


def read_table(store: Store, path: str) -> pa.Table:
    """Return the rows of the label file at ``path``; McvrpError if it is damaged."""
    footer = read_footer(store, path)
    try:
        with store.open_input(path) as stream:
            table = pq.read_table(stream)
    except (pa.ArrowException, OSError) as error:
        raise McvrpError(
            f"{store.url(path)} is damaged ({_first_line(error)}): remove it and label again"
        ) from error
    if table.num_rows != footer.rows:
        raise McvrpError(
            f"{store.url(path)} has {table.num_rows} rows, its footer says {footer.rows}: "
            "remove it and label again"
        )
    return table


def read_files(store: Store, paths: Iterable[str]) -> list[LabelFile]:
    """Return the footers of the label files at ``paths``, in order, several read at once."""
    with ThreadPoolExecutor(_READERS) as readers:
        futures = [(path, readers.submit(read_footer, store, path)) for path in paths]
        return [LabelFile(path, future.result()) for path, future in futures]


def shards(store: Store, dataset: str, n: int | None = None) -> list[LabelFile]:
    """Return the shards of ``dataset``, of size ``n`` or of all, by size and row.

    Raises
    ------
    McvrpError
        If a file where a shard should be is truncated, foreign, or says that it is another.
    """
    folder = layout.label_dir(dataset) if n is None else layout.size_dir(dataset, n)
    staging = layout.staging_dir(dataset) + "/"
    paths = [p for p in store.list(folder) if p.endswith(".parquet") and not p.startswith(staging)]
    files = read_files(store, paths)
    for file in files:
        k = layout.shard_number(file.path)
        if k is None or file.path != layout.label_shard(dataset, file.footer.n, k):
            raise McvrpError(f"{store.url(file.path)} is no shard's name for n={file.footer.n}: move it away")
    return sorted(files, key=lambda file: (file.footer.n, file.footer.row_start))


def load_table(store: Store, dataset: str, n: int, limit: int | None = None) -> LabelTable:
    """Return the labels of size ``n``, the first ``limit`` of them or all.

    Raises
    ------
    McvrpError
        If rows are missing; names them.
    """
    tables: list[pa.Table] = []
    stop = 0
    for shard in shards(store, dataset, n):
        if limit is not None and stop >= limit:
            break
        if shard.footer.row_start != stop:
            break
        tables.append(read_table(store, shard.path))
        stop = shard.footer.row_stop
    wanted = stop if limit is None else limit
    if stop < wanted or not tables:
        raise McvrpError(
            f"dataset {dataset!r} in {store.url()} has {stop} of the {max(wanted, 1)} labels of n={n}: "
            "run mcvrp label"
        )
    columns = Columns.of(pa.concat_tables(tables).slice(0, wanted), n)
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


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
