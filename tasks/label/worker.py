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
from mcvrp.storage.labels.label_files import (
    LabelFile,
    label_file,
    parse_footer,
    parse_table,
    read_footer,
)
from mcvrp.storage.labels.schema import Footer, Label, label_table
from mcvrp.storage.labels.shards import Shard
from mcvrp.storage.labels.statistics import ShardFigures
from mcvrp.storage.store.parallel import in_parallel
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.solving import solving
from mcvrp.tasks.label.work import Failure, LabelRecipe, Outcome, Unit, UnitCount, UnitReceipt

PUBLISH_SECONDS = 270.0  # between two writes of a growing chunk: with an instance, what a kill may cost
_FIRST_SECONDS = 5.0  # before its first write: whoever cancels early keeps something


def label_unit(
    store: Store, city: City, recipe: LabelRecipe, unit: Unit
) -> Iterator[UnitCount | UnitReceipt]:
    """Label the rows of ``unit`` and publish them as shards, or in a staged chunk that grows meanwhile.

    Yields how many labels there are so far, now and then, and at the end the receipt. Raises McvrpError if
    the store refuses them, or a label is wrong.
    """
    made, stored, seconds, counted = 0, 0, 0.0, time.monotonic()
    failures, written = list[Failure](), list[Shard]()
    chunk: LabelFile | None = None
    with solving(city, recipe, unit) as solve:
        for path, first, start, stop in unit.files(recipe.dataset):
            # The unit of a lost worker is repeated: labels that the worker has published are kept.
            rows = _unlabelled(store, path, start, stop)
            due = time.monotonic() + min(_FIRST_SECONDS, PUBLISH_SECONDS)
            waiting: list[Outcome] = []
            made += stop - start - len(rows)
            stored = made
            for row in rows:
                waiting.append(outcome := solve(row))
                if isinstance(outcome, Label):
                    made, seconds = made + 1, seconds + outcome.runtime
                else:
                    failures.append(outcome)
                now = time.monotonic()
                if row == rows[-1] or (not unit.shard_rows and now > due):
                    absent = tuple(failure.i for failure in waiting if isinstance(failure, Failure))
                    labels = label_table([label for label in waiting if isinstance(label, Label)])
                    pieces = [LabelPiece(labels, absent)]
                    shard = publish(store, city, recipe.spec_hash, path, unit.n, first, row + 1, pieces)
                    waiting, due, stored = [], now + PUBLISH_SECONDS, made
                    chunk = LabelFile(path, shard.footer)
                    if unit.shard_rows:
                        written.append(shard)
                if now - counted > unit.count_seconds:
                    counted = now
                    yield UnitCount(made, stored)
            if not rows:
                chunk = LabelFile(path, read_footer(store, path))
    yield UnitReceipt(made, tuple(failures), seconds, None if unit.shard_rows else chunk, tuple(written))


def _unlabelled(store: Store, path: str, start: int, stop: int) -> Sequence[int]:
    """Return the rows from ``start`` to ``stop`` (excluded) of which the file at ``path`` has no label."""
    if (data := store.find(path)) is None:
        return range(start, stop)
    labelled = set(parse_table(data, store.url(path))["index"].to_pylist())
    return [row for row in range(start, stop) if row not in labelled]


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
    once the shard with their rows is published. Raises McvrpError if rows are missing.
    """

    def read(source: LabelFile) -> LabelPiece | None:
        if (data := store.find(source.path)) is None:
            return None
        where = store.url(source.path)
        return LabelPiece(parse_table(data, where), parse_footer(data, where).absent)

    staged = [source for source in sources if source.path != path]
    staged.sort(key=lambda source: (source.footer.row_start, -source.footer.row_stop))
    # Sources that are gone were merged by an earlier try whose answer was lost: the shard has their rows.
    pieces = [piece for piece in in_parallel(read, staged) if piece]
    shard = publish(store, city, spec_hash, path, n, start, stop, pieces)
    # After the shard: a kill in between leaves files that `sweep` removes, and no row is ever in neither.
    # Rows beyond the shard belong to a run with a larger count, which may still merge them.
    merged = [source.path for source in staged if source.footer.row_stop <= shard.footer.row_stop]
    store.delete_files(merged)
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
    """Write a file with rows ``start`` to ``stop`` (excluded) of ``pieces`` to ``path``, and return it.

    Of several labels of a row the first counts, and the one in the existing file before all others. No
    existing label is lost, whatever other writers do at the same time. Raises McvrpError if rows are neither
    in a piece nor known to have no label.
    """
    while True:
        existing = None  # of each try: the file may be moved away in between
        if data := store.find(path):
            footer = parse_footer(data, store.url(path))
            existing = LabelPiece(parse_table(data, store.url(path)), footer.absent)
            stop = max(stop, footer.row_stop)  # a run with a larger count may have extended it
        table, absent = _merged(n, start, stop, [existing, *pieces] if existing else pieces)
        if existing and (table.num_rows, absent) == (existing.table.num_rows, existing.absent):
            return _receipt(path, footer, data or b"", table)
        new, footer = label_file(city, spec_hash, n, table, absent)
        if existing:
            store.put(path, new)
        if existing or store.put_new(path, new):
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
