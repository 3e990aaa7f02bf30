"""Publication of shards: pieces merged, written in one go, and never in place of somebody else's work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.labels.label_files import LabelFile, label_file, parse_footer, parse_table, read_table
from mcvrp.storage.store.store import Store


@dataclass(frozen=True)
class LabelPiece:
    """Labels of some rows of a shard, and the rows that are known to have none."""

    table: pa.Table
    absent: tuple[int, ...] = ()


def merge_shard(
    store: Store,
    city: City,
    spec_hash: str,
    path: str,
    n: int,
    start: int,
    stop: int,
    sources: Sequence[LabelFile],
) -> None:
    """Publish the shard at ``path`` with rows ``start`` to ``stop`` (excluded) out of ``sources``.

    The sources are staged files and the smaller shard that is there; they may overlap. Staged ones
    are removed once the shard is there.

    Raises
    ------
    McvrpError
        If some rows are nowhere.
    """
    staged = [source for source in sources if source.path != path and store.exists(source.path)]
    staged.sort(key=lambda source: (source.footer.row_start, -source.footer.row_stop))
    pieces = [LabelPiece(read_table(store, source.path), source.footer.absent) for source in staged]
    publish(store, city, spec_hash, path, n, start, stop, pieces)
    for source in staged:
        store.delete(source.path)


def publish(
    store: Store,
    city: City,
    spec_hash: str,
    path: str,
    n: int,
    start: int,
    stop: int,
    pieces: Sequence[LabelPiece],
) -> None:
    """Put a shard with rows ``start`` to ``stop`` (excluded) of ``pieces`` at ``path``.

    The first of several labels of a row counts, and before all the one in the shard that is there.
    Whoever is at it at the same time, no label that is there goes away.

    Raises
    ------
    McvrpError
        If some rows are neither in a piece nor known to have no label.
    """
    there: LabelPiece | None = None
    tag = ""
    while True:
        if store.exists(path):
            data, tag = store.get_tagged(path)
            footer = parse_footer(data, store.url(path))
            there = LabelPiece(parse_table(data, store.url(path)), footer.absent)
            stop = max(stop, footer.row_stop)
        table, absent = _merged(n, start, stop, [there, *pieces] if there else pieces)
        if there and (table.num_rows, absent) == (there.table.num_rows, there.absent):
            return
        new, _ = label_file(city, spec_hash, n, table, absent)
        if store.swap(path, new, tag) if there else store.put_new(path, new):
            return


def _merged(n: int, start: int, stop: int, pieces: Sequence[LabelPiece]) -> tuple[pa.Table, tuple[int, ...]]:
    table = pa.concat_tables([piece.table for piece in pieces])
    rows, first = np.unique(table["index"].to_numpy(), return_index=True)
    within = (rows >= start) & (rows < stop)
    rows, first = rows[within], first[within]
    absent = {row for piece in pieces for row in piece.absent if start <= row < stop}
    absent.difference_update(rows.tolist())
    if len(rows) + len(absent) < stop - start:
        nowhere = np.setdiff1d(np.arange(start, stop), [*rows.tolist(), *absent])
        raise McvrpError(
            f"row {nowhere[0]} of n={n} went missing before its shard was merged: run the same command again"
        )
    if not np.array_equal(first, np.arange(table.num_rows)):
        table = table.take(first)
    return table, tuple(sorted(absent))
