"""Statistics of a dataset, computed for sizes whose labels have changed, on Ray if they are many."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray

from mcvrp.model.errors import reason
from mcvrp.storage.labels.label_files import CorruptFile
from mcvrp.storage.labels.schema import MADE_BY
from mcvrp.storage.labels.shards import Shard, ShardList
from mcvrp.storage.labels.statistics import (
    QUANTITIES,
    Maker,
    SizeStatistics,
    Spread,
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


def update_statistics(store: Store, dataset: str, workers: int | None = None) -> list[SizeStatistics]:
    """Return the statistics of ``dataset`` by size, and store them; its manifest must be up to date.

    Only sizes whose shards have changed since the last call are read; McvrpError if one cannot be read.
    """
    stored = {size.n: size for size in read_statistics(store, dataset)}
    sizes = list(_sizes(store, dataset))
    changed = [size for size in sizes if size.n not in stored or stored[size.n].content != size.content]
    by_size = {size.n: stored[size.n] for size in sizes if size not in changed}
    by_size |= {size.n: size for size in _computed(store, dataset, changed, workers)}
    statistics = [by_size[n] for n in sorted(by_size)]
    if changed or len(stored) != len(by_size):
        write_statistics(store, dataset, statistics)
    return statistics


def _sizes(store: Store, dataset: str) -> Iterator[_Size]:
    for n, shards in groupby(ShardList(store, dataset), key=lambda shard: shard.footer.n):
        of_size = tuple(shards)
        digest = hashlib.sha256("\n".join(shard.sha256 for shard in of_size).encode())
        yield _Size(n, sum(shard.footer.rows for shard in of_size), digest.hexdigest()[:32], of_size)


def _computed(
    store: Store, dataset: str, changed: list[_Size], workers: int | None
) -> Iterator[SizeStatistics]:
    changed = [size for size in changed if size.rows]
    if not ray.is_initialized() and sum(size.rows for size in changed) <= _WITHOUT_RAY:
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
    tables, columns = [], ["cost", "routes", "runtime", *MADE_BY]
    for shard in size.shards:
        try:
            with store.open_input(shard.path) as stream:
                table = pq.ParquetFile(stream, page_checksum_verification=True).read(columns=columns)
        except UNREADABLE as error:
            raise CorruptFile(
                f"{store.url(shard.path)} cannot be read ({reason(error)}): run mcvrp verify"
            ) from error
        routes = pc.list_value_length(table["routes"])
        tables.append(table.set_column(table.schema.get_field_index("routes"), "routes", routes))
    labels = pa.concat_tables(tables)
    makers = labels.group_by(list(MADE_BY)).aggregate([([], "count_all")]).to_pylist()
    made = [Maker(**{name: maker[name] for name in MADE_BY}, rows=maker["count_all"]) for maker in makers]
    return SizeStatistics(
        n=size.n,
        rows=labels.num_rows,
        absent=sum(len(shard.footer.absent) for shard in size.shards),
        files=len(size.shards),
        bytes=sum(shard.bytes for shard in size.shards),
        content=size.content,
        **{quantity: Spread.of(labels[quantity].to_numpy()) for quantity in QUANTITIES},
        makers=tuple(sorted(made, key=lambda maker: -maker.rows)),
    )
