"""The labels of one night: fresh days, repeated, among old labels drawn at random.

The dataset is a pure function of what goes in: written again, it is the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from model.problem import City, philox_key, philox_order
from storage import layout
from storage.labels import read_table, shards, sizes, write_labels
from storage.schemas import Label, table_labels
from storage.store import Store

_SPEC = "nightly"  # what stands in the footers where a dataset of solvers has the hash of its spec


@dataclass(frozen=True)
class Mix:
    """What a night's dataset has: ``rows`` of each size, ``fresh`` of them all, each day ``times`` over."""

    dataset: str
    rows: dict[int, int]
    fresh: int
    times: int


def repeats(days: int, replay: int, share: float, most: int) -> int:
    """Return how often each of ``days`` stands among ``replay`` old labels to make up ``share`` of all."""
    wanted = share / (1 - share) * replay
    return max(1, min(most, round(wanted / days))) if days else 0


def write_mix(
    store: Store, city: City, dataset: str, days: Sequence[Label], old: Sequence[Label], times: int
) -> Mix:
    """Write the labels of a night as ``dataset``, one shard a size, and return what it is made of.

    Parameters
    ----------
    days
        What was driven on the days to learn from, each to be there ``times``.
    old
        The labels to go with them.

    Raises
    ------
    McvrpError
        If a label is none of this city.
    """
    by_size: dict[int, list[Label]] = {}
    for label in [*old, *(day for day in days for _ in range(times))]:
        by_size.setdefault(label.instance.n, []).append(label)
    for n, labels in sorted(by_size.items()):
        path = layout.label_shard(dataset, n, 0)
        if not store.exists(path):
            write_labels(store, path, city, _SPEC, [replace(each, index=i) for i, each in enumerate(labels)])
    rows = {n: len(labels) for n, labels in sorted(by_size.items())}
    return Mix(dataset, rows, times * len(days), times)


def drawn(store: Store, dataset: str, count: int, stream: tuple[str, ...]) -> Iterator[Label]:
    """Yield about ``count`` random labels of ``dataset``, equally many of each size that has enough.

    Parameters
    ----------
    stream
        Names the draw: the same labels for the same names.

    Raises
    ------
    McvrpError
        If a shard is damaged.
    """
    there = sizes(store, dataset)
    key = philox_key("replay", *stream)
    for place, n in enumerate(there):
        wanted = count * (place + 1) // len(there) - count * place // len(there)
        files = list(shards(store, dataset, n))
        tables: list[pa.Table] = []
        for k in philox_order(key, (n, 0), len(files)):
            if sum(len(table) for table in tables) >= wanted:
                break
            tables.append(read_table(store, files[k].path))
        if tables and wanted:
            table = pa.concat_tables(tables)
            rows = philox_order(key, (n, 1), len(table))[:wanted]
            yield from table_labels(table.take(rows), files[0].footer.city_id)
