"""One label of a dataset, found by its instance: only the rows around it are read."""

from __future__ import annotations

import pyarrow.parquet as pq

from model.errors import McvrpError, reason
from storage.labels import DamagedFile, LabelFile, shards
from storage.schemas import Label, table_labels
from storage.store import Store
from storage.store_errors import SPOILT


def load_label(store: Store, dataset: str, n: int, i: int) -> Label:
    """Return the label of instance (``n``, ``i``) in ``dataset``.

    Raises
    ------
    McvrpError
        If there is none, or its file is damaged.
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
    except SPOILT as error:
        raise DamagedFile(
            f"{store.url(shard.path)} is damaged ({reason(error)}): run mcvrp verify"
        ) from error
    raise DamagedFile(f"{store.url(shard.path)} has fewer rows than its footer says: run mcvrp verify")
