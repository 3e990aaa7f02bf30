"""Statistics of a dataset, computed for sizes whose labels have changed from the figures of their shards."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow.parquet as pq

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
)
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.parallel import in_parallel
from mcvrp.storage.store.store import Store


def current_statistics(
    store: Store,
    dataset: str,
    stored: Sequence[SizeStatistics],
    known: Mapping[str, ShardFigures] | None = None,
) -> list[SizeStatistics]:
    """Return the statistics of ``dataset`` by size; its manifest must be up to date.

    Of sizes whose shards are not those of the ``stored`` statistics those shards are read whose figures are
    not ``known`` by their checksum; McvrpError if one cannot be read.
    """
    by_content, statistics = {size.content: size for size in stored}, list[SizeStatistics]()
    for _, of_size in groupby(ShardList(store, dataset), key=lambda shard: shard.footer.n):
        shards = list(of_size)
        digest = hashlib.sha256("\n".join(shard.sha256 for shard in shards).encode()).hexdigest()[:32]
        if digest in by_content:
            statistics.append(by_content[digest])
        elif any(shard.footer.rows for shard in shards):
            statistics.append(_statistics(store, shards, digest, known or {}))
    return statistics


def _statistics(
    store: Store, shards: Sequence[Shard], content: str, known: Mapping[str, ShardFigures]
) -> SizeStatistics:
    def figures_of(shard: Shard) -> ShardFigures:
        return known.get(shard.sha256) or _read_figures(store, shard)

    figures, makers = list(in_parallel(figures_of, shards)), Counter[Maker]()
    for maker in (maker for each in figures for maker in each.makers):
        makers[replace(maker, rows=0)] += maker.rows
    return SizeStatistics(
        n=shards[0].footer.n,
        rows=sum(shard.footer.rows for shard in shards),
        absent=sum(len(shard.footer.absent) for shard in shards),
        files=len(shards),
        bytes=sum(shard.bytes for shard in shards),
        content=content,
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
