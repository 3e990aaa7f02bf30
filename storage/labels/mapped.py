"""Labels of one size as training reads them: an Arrow (IPC) file on local disk, mapped into memory.

The file has one uncompressed record batch, so its columns are the arrays. It is no Parquet, and no file of
the store.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.storage.labels.arrays import LabelArrays

MAPPED_FORMAT = 3  # 1 was not Arrow, 2 had a checksum
_BLOCK = 64  # rows whose nodes are looked up together


@dataclass(frozen=True, eq=False)
class MappedLabels:
    """N labels of ``n`` customers in read-only arrays.

    A row is a sequence 0, route, 0, ..., 0 of positions in the instance: 0 is the depot, k the k-th of
    ``ids``. Row r is ``positions[offsets[r]:offsets[r + 1]]``.
    """

    n: int
    ids: NDArray[np.unsignedinteger]  # (N, n), node numbers, ascending, uint16 or uint32
    demands: NDArray[np.unsignedinteger]  # (N, n), uint8 or uint16
    capacities: NDArray[np.uint32]  # (N,)
    positions: NDArray[np.unsignedinteger]  # of all rows, concatenated, uint8 or uint16
    offsets: NDArray[np.int64]  # (N + 1,)

    @classmethod
    def of(cls, labels: LabelArrays) -> MappedLabels:
        """Return ``labels`` in the smallest types that hold them."""
        return cls(
            n=labels.ids.shape[1],
            ids=_narrow(labels.ids, np.uint16, np.uint32),
            demands=_narrow(labels.demands, np.uint8, np.uint16),
            capacities=labels.capacities,
            positions=_positions(labels.ids, labels.paths, labels.offsets),
            offsets=labels.offsets,
        )

    @classmethod
    def join(cls, parts: Sequence[MappedLabels]) -> MappedLabels:
        """Return the rows of all ``parts``, which are of one size, in order."""
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("ids", "demands", "capacities", "positions")
        }
        return cls(n=parts[0].n, **arrays, offsets=np.concatenate([np.zeros(1, np.int64), *offsets]))

    def __len__(self) -> int:
        return len(self.ids)


def write_mapped(path: Path, labels: MappedLabels) -> None:
    """Write ``labels`` to ``path``, whole or not at all; OSError if the disk refuses."""
    columns = {
        "ids": pa.FixedSizeListArray.from_arrays(labels.ids.reshape(-1), labels.n),
        "demands": pa.FixedSizeListArray.from_arrays(labels.demands.reshape(-1), labels.n),
        "capacity": pa.array(labels.capacities),
        "path": pa.LargeListArray.from_arrays(labels.offsets, labels.positions),
    }
    batch = pa.record_batch(columns)
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with aside.open("wb") as stream:
            with pa.ipc.new_file(stream, batch.schema) as file:
                file.write_batch(batch)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def map_labels(path: Path, n: int, rows: int) -> MappedLabels | None:
    """Return the ``rows`` labels of size ``n`` in the file ``path``, mapped; None if it is another."""
    try:
        with pa.memory_map(str(path)) as file:  # hundreds of sizes must not take a file descriptor each
            data = file.read_buffer()
        batch = pa.ipc.open_file(data).get_batch(0)
        if batch.num_rows != rows:
            return None
        ids, demands, capacities, positions = batch.columns
        return MappedLabels(
            n=n,
            ids=ids.values.to_numpy().reshape(rows, n),
            demands=demands.values.to_numpy().reshape(rows, n),
            capacities=capacities.to_numpy(),
            positions=positions.values.to_numpy(),
            offsets=positions.offsets.to_numpy(),
        )
    except (OSError, LookupError, TypeError, ValueError, pa.ArrowException):  # absent, truncated or foreign
        return None


def _narrow(
    array: NDArray[np.unsignedinteger], small: type[np.unsignedinteger], large: type[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    return array.astype(small if array.max(initial=0) <= np.iinfo(small).max else large)


def _positions(
    ids: NDArray[np.unsignedinteger], nodes: NDArray[np.unsignedinteger], offsets: NDArray[np.int64]
) -> NDArray[np.unsignedinteger]:
    """Return the position of each of ``nodes`` in its row of ``ids``, counted from 1; the depot is 0."""
    n = ids.shape[1]
    kind: type[np.unsignedinteger] = np.uint8 if n < 2**8 else np.uint16
    positions = np.empty(len(nodes), dtype=kind)
    # A lookup table over all nodes of the city is ten times as fast as np.searchsorted. Entries left by an
    # earlier block are never read: a block only looks up its own nodes.
    table = np.zeros((_BLOCK, int(ids.max(initial=0)) + 1), dtype=positions.dtype)
    for start in range(0, len(ids), _BLOCK):
        block = ids[start : start + _BLOCK]
        table[np.arange(len(block))[:, None], block] = np.arange(1, n + 1)
        ends = offsets[start : start + len(block) + 1]
        row = np.repeat(np.arange(len(block)), np.diff(ends))
        positions[ends[0] : ends[-1]] = table[row, nodes[ends[0] : ends[-1]]]
    return positions
