"""The labels of one size as a file that is mapped into memory: flat arrays on end, no padding.

A header of one page (a checksum of it, then JSON: what array stands where) and then the arrays'
bytes, little-endian. Knows no store and no Parquet.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.storage.labels.columns import Columns

FLAT_FORMAT = 1
_HEADER = 4096  # bytes
_ALIGN = 64  # bytes: where an array may begin
_DIGEST = 64  # characters of the header's checksum
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
    return _HEADER + int(rows * (n * (2 + 1 + _ROUTE_SHARE * position) + 4 + 8))


def write_flat(path: Path, labels: FlatLabels) -> None:
    """Put ``labels`` at ``path``, whole or not at all; OSError where the disk refuses."""
    arrays = {f.name: _little(getattr(labels, f.name)) for f in fields(labels) if f.name != "n"}
    places: dict[str, dict[str, Any]] = {}
    end = _HEADER
    for name, array in arrays.items():
        places[name] = {"type": array.dtype.str, "shape": array.shape, "start": end}
        end += -(-array.nbytes // _ALIGN) * _ALIGN
    header = {"format": FLAT_FORMAT, "n": labels.n, "rows": len(labels), "bytes": end, "arrays": places}
    text = json.dumps(header).encode().ljust(_HEADER - _DIGEST)
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with aside.open("wb") as stream:
            stream.write(hashlib.sha256(text).hexdigest().encode() + text)
            for name, array in arrays.items():
                stream.seek(places[name]["start"])
                stream.write(array.data)
            stream.truncate(end)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def map_flat(path: Path, n: int, rows: int) -> FlatLabels | None:
    """Return the ``rows`` labels of size ``n`` at ``path``, mapped; None if that is not what is there whole.

    The file is not held open: a mapping a size of the paper must not take a descriptor each.
    """
    try:
        with pa.memory_map(str(path)) as file:
            data = file.read_buffer(file.size())
    except (OSError, pa.ArrowException):
        return None
    head = bytes(data[:_HEADER])
    digest, text = head[:_DIGEST], head[_DIGEST:]
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return None
    header = json.loads(text)
    there = [header[name] for name in ("format", "n", "rows", "bytes")]
    if there != [FLAT_FORMAT, n, rows, data.size]:
        return None
    arrays = {}
    for name, place in header["arrays"].items():
        count = int(np.prod(place["shape"]))
        array = np.frombuffer(data, place["type"], count, place["start"])
        arrays[name] = array.reshape(place["shape"])
    return FlatLabels(n=n, **arrays)


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


def _little(array: NDArray[np.generic]) -> NDArray[np.generic]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
