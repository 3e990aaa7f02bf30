"""Work of a Ray worker: labels, stages and merges rows, and publishes them without replacing other labels.

Imports neither Ray nor Prefect nor torch, so that a worker starts quickly.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import (
    LabelFile,
    label_file,
    parse_footer,
    parse_table,
    read_footer,
    read_table,
    write_table,
)
from mcvrp.storage.labels.schema import Footer, Label, label_table
from mcvrp.storage.labels.shards import Shard
from mcvrp.storage.labels.statistics import ShardFigures
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.solving import solving
from mcvrp.tasks.label.work import Failure, LabelRecipe, Unit, UnitReceipt

_COUNT_SECONDS = 2.0  # between two counts of a unit


def label_unit(store: Store, city: City, recipe: LabelRecipe, unit: Unit) -> Iterator[int | UnitReceipt]:
    """Label the rows of ``unit`` and publish them as shards, or stage them as one file.

    Yields how many labels there are so far, stored or not, now and then, and at the end the receipt. Raises
    McvrpError if the store refuses them, or a label is wrong.
    """
    made, seconds, chunk, counted = 0, 0.0, None, time.monotonic()
    failures, written = list[Failure](), list[Shard]()
    parts = [(None, unit.start, unit.stop)] if unit.shard_rows is None else unit.shards(unit.shard_rows)
    with solving(city, recipe, unit) as solve:
        for k, start, stop in parts:
            shard = None if k is None else layout.label_shard(recipe.dataset, unit.n, k)
            # The unit of a lost worker is repeated: shards that the worker has published are complete.
            if shard and (published := _published(store, shard, stop)):
                made += published
                continue
            labels: list[Label] = []
            failed: list[Failure] = []
            for outcome in map(solve, range(start, stop)):
                if isinstance(outcome, Label):
                    labels.append(outcome)
                else:
                    failed.append(outcome)
                if time.monotonic() - counted > _COUNT_SECONDS:
                    counted = time.monotonic()
                    yield made + len(labels)
            table, absent = label_table(labels), tuple(failure.i for failure in failed)
            if shard:
                pieces = [LabelPiece(table, absent)]
                written.append(publish(store, city, recipe.spec_hash, shard, unit.n, start, stop, pieces))
            else:
                # Named after its rows: a unit that is repeated replaces its own chunk, and no other.
                path = layout.staged_chunk(recipe.dataset, unit.n, start, stop)
                chunk = write_table(store, path, city, recipe.spec_hash, unit.n, table, absent)
            made += len(labels)
            failures += failed
            seconds += sum(label.runtime for label in labels)
    yield UnitReceipt(made, tuple(failures), seconds, chunk, tuple(written))


def _published(store: Store, shard: str, stop: int) -> int:
    """Return the number of rows of the shard if it is complete up to row ``stop``, otherwise 0."""
    if not store.exists(shard):
        return 0
    footer = read_footer(store, shard)
    # With absent rows it is not complete: this unit may solve them.
    return footer.rows if footer.row_stop >= stop and not footer.absent else 0


@dataclass(frozen=True)
class LabelPiece:
    """Labels of some rows of a shard, and the rows that are known to have no label."""

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
) -> Shard:
    """Publish the shard at ``path`` with rows ``start`` to ``stop`` (excluded) from ``sources``; return it.

    The sources are staged files and the existing, smaller shard; they may overlap. Staged files are removed
    once the shard is published. Raises McvrpError if rows are missing.
    """
    # Sources that are gone were merged by an earlier try whose answer was lost: their rows are in the shard.
    staged = [source for source in sources if source.path != path and store.exists(source.path)]
    staged.sort(key=lambda source: (source.footer.row_start, -source.footer.row_stop))
    pieces = [LabelPiece(read_table(store, source.path), source.footer.absent) for source in staged]
    shard = publish(store, city, spec_hash, path, n, start, stop, pieces)
    # After the shard: a kill in between leaves files that `sweep` removes, and no row is ever in neither.
    for source in staged:
        store.delete(source.path)
    return shard


def publish(
    store: Store,
    city: City,
    spec_hash: str,
    path: str,
    n: int,
    start: int,
    stop: int,
    pieces: Sequence[LabelPiece],
) -> Shard:
    """Write a shard with rows ``start`` to ``stop`` (excluded) of ``pieces`` to ``path``, and return it.

    Of several labels of a row the first counts, and the one in the existing shard before all others. No
    existing label is lost, whatever other writers do at the same time. Raises McvrpError if rows are neither
    in a piece nor known to have no label.
    """
    while True:
        existing, tag = None, ""  # of each try: the shard may be moved away in between
        if store.exists(path):
            data, tag = store.get_tagged(path)
            footer = parse_footer(data, store.url(path))
            existing = LabelPiece(parse_table(data, store.url(path)), footer.absent)
            stop = max(stop, footer.row_stop)  # a run with a larger count may have extended it
        table, absent = _merged(n, start, stop, [existing, *pieces] if existing else pieces)
        if existing and (table.num_rows, absent) == (existing.table.num_rows, existing.absent):
            return _receipt(path, footer, data, table)
        new, footer = label_file(city, spec_hash, n, table, absent)
        # Compare-and-swap, not `put`: a worker that was taken for dead may be publishing the same shard. They
        # are not idempotent, so the store itself sees to lost answers; a False here means that the shard has
        # changed, and it is merged again.
        if store.swap(path, new, tag) if existing else store.put_new(path, new):
            return _receipt(path, footer, new, table)


def _receipt(path: str, footer: Footer, data: bytes, table: pa.Table) -> Shard:
    """Return the shard whose bytes are ``data``; the store knows the time of its last write."""
    sha256 = hashlib.sha256(data).hexdigest()
    return Shard(path, footer, len(data), 0.0, sha256, ShardFigures.of(table))


def _merged(n: int, start: int, stop: int, pieces: Sequence[LabelPiece]) -> tuple[pa.Table, tuple[int, ...]]:
    table = pa.concat_tables([piece.table for piece in pieces])
    rows, first = np.unique(table["index"].to_numpy(), return_index=True)  # of each row the first label
    within = (rows >= start) & (rows < stop)
    rows, first = rows[within], first[within]
    absent = {row for piece in pieces for row in piece.absent if start <= row < stop}
    absent.difference_update(rows.tolist())
    if len(rows) + len(absent) < stop - start:
        missing = np.setdiff1d(np.arange(start, stop), [*rows.tolist(), *absent])
        raise McvrpError(
            f"row {missing[0]} of n={n} is in none of the files to be merged: run the same command again"
        )
    # `take` copies every list of the table: pieces that follow each other need no new order.
    if not np.array_equal(first, np.arange(table.num_rows)):
        table = table.take(first)
    return table, tuple(sorted(absent))
