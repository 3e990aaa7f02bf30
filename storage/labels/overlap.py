"""Instances that two datasets share: the check that no model is tested on its training instances.

Instances are compared by a 64-bit key of customers, demands and capacity. Only these columns of the label
files are read, some thousand rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import Instance
from mcvrp.model.random import philox_key
from mcvrp.storage.labels.dataset import list_files, without_merged
from mcvrp.storage.parquet import UNREADABLE
from mcvrp.storage.store.store import Store

_COLUMNS = ["index", "ids", "demands", "capacity"]
_BATCH = 4096  # rows in memory at a time


@dataclass(frozen=True)
class Keys:
    """Instances of one size: index i and key of each, both ``(N,)``."""

    index: NDArray[np.int64]
    keys: NDArray[np.uint64]

    @classmethod
    def of(cls, instances: Iterable[tuple[int, Instance]]) -> Keys:
        """Return the keys of ``instances``, pairs of i and instance, of one size."""
        index, rows = zip(*instances, strict=True)
        ids, demands = np.stack([row.ids for row in rows]), np.stack([row.demands for row in rows])
        return cls(np.array(index), _keys(ids, demands, np.array([row.capacity for row in rows])))

    def shared(self, other: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the index, here and in ``other``, of each instance that both have."""
        _, here, elsewhere = np.intersect1d(self.keys, other.keys, return_indices=True)
        return self.index[here], other.index[elsewhere]


def dataset_keys(store: Store, dataset: str, n: int) -> Keys:
    """Return the keys of all instances of size ``n`` in ``dataset``, empty if it has none.

    Raises McvrpError if a file cannot be read.
    """
    index, keys = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
    for _, _, path, _ in without_merged(list_files(store, dataset, n).get(n, [])):
        try:
            with store.open_input(path) as stream:
                for batch in pq.ParquetFile(stream).iter_batches(_BATCH, columns=_COLUMNS):
                    ids, demands = (
                        batch[name].flatten().to_numpy().reshape(len(batch), n) for name in ("ids", "demands")
                    )
                    index.append(batch["index"].to_numpy())
                    keys.append(_keys(ids, demands, batch["capacity"].to_numpy()))
        except (*UNREADABLE, KeyError) as error:
            raise McvrpError(
                f"the instances in {store.url(path)} cannot be read ({error}): run mcvrp verify {dataset}"
            ) from error
    return Keys(np.concatenate(index), np.concatenate(keys))


def _keys(
    ids: NDArray[np.integer], demands: NDArray[np.integer], capacities: NDArray[np.integer]
) -> NDArray[np.uint64]:
    """Return a key of each row: a sum modulo 2^64 in which every position has its own random factor."""
    n = ids.shape[1]
    key = philox_key("instance-key", str(n))
    words = np.random.Philox(key=[key & (2**64 - 1), key >> 64]).random_raw(2 * n + 1) | np.uint64(1)
    keys: NDArray[np.uint64] = capacities.astype(np.uint64) * words[2 * n]
    keys += (ids.astype(np.uint64) * words[:n]).sum(axis=1, dtype=np.uint64)
    keys += (demands.astype(np.uint64) * words[n : 2 * n]).sum(axis=1, dtype=np.uint64)
    return keys
