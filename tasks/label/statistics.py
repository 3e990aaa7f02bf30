"""Statistics of a dataset, computed for sizes whose labels have changed, on Ray if they are many."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow.parquet as pq
import ray

from mcvrp.model.errors import reason
from mcvrp.storage.labels.label_files import CorruptFile
from mcvrp.storage.labels.shards import Shard, ShardList
from mcvrp.storage.labels.statistics import (
    FIGURE_COLUMNS,
    QUANTITIES,
    Maker,
    ShardFigures,
    SizeStatistics,
    merged_spread,
    read_statistics,
    write_statistics,
)
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

_WITHOUT_RAY = 500_000  # labels: starting Ray would take longer


@dataclass(frozen=True)
class _Size:
    """The shards of one size, the number of their rows, and a hash of their checksums."""

    n: int
    rows: int
    content: str
    shards: tuple[Shard, ...]


def update_statistics(
    store: Store, dataset: str, workers: int | None = None, known: Mapping[str, ShardFigures] | None = None
) -> list[SizeStatistics]:
    """Return the statistics of ``dataset`` by size, and store them; its manifest must be up to date.

    Of sizes whose shards have changed since the last call those shards are read whose figures are not
    ``known`` by their checksum; McvrpError if one cannot be read.
    """
    stored = {size.n: size for size in read_statistics(store, dataset)}
    sizes = list(_sizes(store, dataset, known or {}))
    changed = [size for size in sizes if size.n not in stored or stored[size.n].content != size.content]
    by_size = {size.n: stored[size.n] for size in sizes if size not in changed}
    by_size |= {size.n: size for size in _computed(store, dataset, changed, workers)}
    statistics = [by_size[n] for n in sorted(by_size)]
    if changed or len(stored) != len(by_size):
        write_statistics(store, dataset, statistics)
    return statistics


def _sizes(store: Store, dataset: str, known: Mapping[str, ShardFigures]) -> Iterator[_Size]:
    for n, shards in groupby(ShardList(store, dataset), key=lambda shard: shard.footer.n):
        of_size = tuple(replace(shard, figures=known.get(shard.sha256)) for shard in shards)
        digest = hashlib.sha256("\n".join(shard.sha256 for shard in of_size).encode())
        yield _Size(n, sum(shard.footer.rows for shard in of_size), digest.hexdigest()[:32], of_size)


def _computed(
    store: Store, dataset: str, changed: list[_Size], workers: int | None
) -> Iterator[SizeStatistics]:
    changed = [size for size in changed if size.rows]
    unread = [shard.footer.rows for size in changed for shard in size.shards if not shard.figures]
    if not unread or (not ray.is_initialized() and sum(unread) <= _WITHOUT_RAY):
        yield from (_statistics(size, store) for size in changed)
        return
    # One size per task: a worker holds the labels of one size, and the percentiles need all of them.
    with ray_session(workers) as cores, Progress(f"card {dataset}", len(changed), "sizes") as progress:
        for size, result in windowed(_statistics, changed, cores, store, store):
            if not isinstance(result, SizeStatistics):  # every worker that read them crashed
                raise CorruptFile(f"the labels of n={size.n} in {dataset!r} cannot be read: run mcvrp verify")
            progress.advance()
            yield result


def _statistics(size: _Size, store: Store) -> SizeStatistics:
    figures = [shard.figures or _read_figures(store, shard) for shard in size.shards]
    makers: Counter[Maker] = Counter()
    for maker in (maker for each in figures for maker in each.makers):
        makers[replace(maker, rows=0)] += maker.rows
    return SizeStatistics(
        n=size.n,
        rows=size.rows,
        absent=sum(len(shard.footer.absent) for shard in size.shards),
        files=len(size.shards),
        bytes=sum(shard.bytes for shard in size.shards),
        content=size.content,
        **{name: merged_spread([each.samples[name] for each in figures]) for name in QUANTITIES},
        makers=tuple(replace(maker, rows=rows) for maker, rows in makers.most_common()),
    )


def _read_figures(store: Store, shard: Shard) -> ShardFigures:
    try:
        with store.open_input(shard.path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            return ShardFigures.of(file.read(columns=FIGURE_COLUMNS))
    except UNREADABLE as error:
        raise CorruptFile(
            f"{store.url(shard.path)} cannot be read ({reason(error)}): run mcvrp verify"
        ) from error
