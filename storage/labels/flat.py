"""The labels of one size as flat arrays, and as a file of Arrow (IPC) that is mapped into memory.

The file has one record batch, not compressed, so that its columns are the arrays. What describes them
carries a checksum, the labels themselves do not: nobody reads all of them to open it. Knows no store and
no Parquet.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.storage.labels.columns import Columns

FLAT_FORMAT = 2  # 1 was a format of our own
_CHECK = b"sha256"  # names the checksum of all bytes of a file that are no labels, with zeros in its place
_ZEROS = b"0" * 64
_DESCRIPTION = 2200  # bytes of a file that are no labels, about
_BLOCK = 64  # rows whose nodes are looked up together
_ROUTE_SHARE = 1.25  # tokens of a path for each customer, about: n and a depot a route


@dataclass(frozen=True, eq=False)
class FlatLabels:
    """The labels of ``n`` customers, N of them; the arrays cannot be written.

    Parameters
    ----------
    ids
        Node numbers, ascending, uint16 or uint32 ``(N, n)``.
    demands
        Demand of each, uint8 or uint16 ``(N, n)``.
    capacities
        What a vehicle holds, uint32 ``(N,)``.
    paths
        The sequences 0, route, 0, ..., 0 of all rows on end, each node by its position in the
        instance (0 is the depot, k the k-th of ``ids``), uint8 or uint16.
    offsets
        Row r is ``paths[offsets[r]:offsets[r + 1]]``, int64 ``(N + 1,)``.
    """

    n: int
    ids: NDArray[np.unsignedinteger]
    demands: NDArray[np.unsignedinteger]
    capacities: NDArray[np.uint32]
    paths: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, columns: Columns) -> FlatLabels:
        """Return the rows of ``columns`` in the smallest types that hold them."""
        nodes, offsets = columns.paths()
        return cls(
            n=columns.ids.shape[1],
            ids=_narrow(columns.ids, np.uint16, np.uint32),
            demands=_narrow(columns.demands, np.uint8, np.uint16),
            capacities=columns.capacities,
            paths=_positions(columns.ids, nodes, offsets),
            offsets=offsets,
        )

    @classmethod
    def join(cls, parts: Sequence[FlatLabels]) -> FlatLabels:
        """Return the rows of all ``parts``, in order; they are of one size."""
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("ids", "demands", "capacities", "paths")
        }
        return cls(n=parts[0].n, **arrays, offsets=np.concatenate([np.zeros(1, np.int64), *offsets]))

    def __len__(self) -> int:
        return len(self.ids)


def expected_bytes(n: int, rows: int) -> int:
    """Return about how many bytes ``rows`` labels of ``n`` customers take in a city of up to 65,535."""
    position = _position_type(n)().itemsize
    return _DESCRIPTION + int(rows * (n * (2 + 1 + _ROUTE_SHARE * position) + 4 + 8))


def write_flat(path: Path, labels: FlatLabels) -> None:
    """Put ``labels`` at ``path``, whole or not at all; OSError where the disk refuses."""
    columns = {
        "ids": pa.FixedSizeListArray.from_arrays(labels.ids.reshape(-1), labels.n),
        "demands": pa.FixedSizeListArray.from_arrays(labels.demands.reshape(-1), labels.n),
        "capacity": pa.array(labels.capacities),
        "path": pa.LargeListArray.from_arrays(labels.offsets, labels.paths),
    }
    batch = pa.record_batch(columns, metadata={_CHECK: _ZEROS})
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with aside.open("wb") as stream:
            with pa.ipc.new_file(stream, batch.schema) as file:
                file.write_batch(batch)
            stream.flush()
            _, description = _mapped(aside)
            # The schema stands at the beginning, for readers of a stream, and again at the end.
            stream.seek(description.index(_ZEROS))
            stream.write(_checksum(description))
            stream.seek(description.rindex(_ZEROS) - len(description), os.SEEK_END)
            stream.write(_checksum(description))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def map_flat(path: Path, n: int, rows: int) -> FlatLabels | None:
    """Return the ``rows`` labels of size ``n`` at ``path``, mapped; None if something else is there."""
    try:
        batch, description = _mapped(path)
        check = batch.schema.metadata[_CHECK]
        if batch.num_rows != rows or _checksum(description.replace(check, _ZEROS)) != check:
            return None
        ids, demands, capacities, paths = batch.columns
        return FlatLabels(
            n=n,
            ids=ids.values.to_numpy().reshape(rows, n),
            demands=demands.values.to_numpy().reshape(rows, n),
            capacities=capacities.to_numpy(),
            paths=paths.values.to_numpy(),
            offsets=paths.offsets.to_numpy(),
        )
    except (OSError, LookupError, TypeError, ValueError, pa.ArrowException):  # absent, cut or foreign
        return None


def _mapped(path: Path) -> tuple[pa.RecordBatch, bytes]:
    """Return the batch in the file at ``path``, mapped, and what the file holds besides the arrays.

    The file is not held open: a mapping a size of the paper must not take a descriptor each.
    """
    with pa.memory_map(str(path)) as file:
        data = file.read_buffer()
    batch = pa.ipc.open_file(data).get_batch(0)
    first, *_, last = (buffer for column in batch.columns for buffer in column.buffers() if buffer)
    start, stop = first.address - data.address, last.address + last.size - data.address
    return batch, bytes(data[:start]) + bytes(data[stop:])


def _checksum(description: bytes) -> bytes:
    return hashlib.sha256(description).hexdigest().encode()


def _narrow(
    array: NDArray[np.unsignedinteger], small: type[np.unsignedinteger], large: type[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    return array.astype(small if array.max(initial=0) <= np.iinfo(small).max else large)


def _position_type(n: int) -> type[np.unsignedinteger]:
    return np.uint8 if n < 2**8 else np.uint16


def _positions(
    ids: NDArray[np.unsignedinteger], nodes: NDArray[np.unsignedinteger], offsets: NDArray[np.int64]
) -> NDArray[np.unsignedinteger]:
    """Return where each of ``nodes`` stands in its row of ``ids``, counted from 1; the depot is 0."""
    n = ids.shape[1]
    found = np.empty(len(nodes), dtype=_position_type(n))
    # Looked up in a table of all nodes of the city, ten times as fast as searching; what an
    # earlier block left there is of no node of this one.
    table = np.zeros((_BLOCK, int(ids.max(initial=0)) + 1), dtype=found.dtype)
    for start in range(0, len(ids), _BLOCK):
        block = ids[start : start + _BLOCK]
        table[np.arange(len(block))[:, None], block] = np.arange(1, n + 1)
        ends = offsets[start : start + len(block) + 1]
        row = np.repeat(np.arange(len(block)), np.diff(ends))
        found[ends[0] : ends[-1]] = table[row, nodes[ends[0] : ends[-1]]]
    return found
