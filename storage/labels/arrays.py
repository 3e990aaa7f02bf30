"""Labels of one size as flat NumPy arrays, and hashes of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class LabelArrays:
    """Labels of one size as flat arrays: N rows of n customers each, R routes with V visits in all."""

    index: NDArray[np.int64]  # (N,), i of instance (n, i)
    ids: NDArray[np.uint32]  # (N, n), node numbers of the customers, ascending
    demands: NDArray[np.uint16]  # (N, n)
    capacities: NDArray[np.uint32]  # (N,)
    costs: NDArray[np.float64]  # (N,), in the city's unit
    nodes: NDArray[np.uint32]  # (V,), customers in the order of their visits
    route_of: NDArray[np.int64]  # (V,), route of each visit
    row_of: NDArray[np.int64]  # (R,), row of each route

    @classmethod
    def of(cls, table: pa.Table, n: int) -> LabelArrays:
        """Return the rows of ``table``; ValueError if a row does not have ``n`` customers."""
        rows = table.num_rows
        ids, demands, routes = (_array(table, name) for name in ("ids", "demands", "routes"))
        for name, lists in (("ids", ids), ("demands", demands)):
            lengths = _lengths(lists)
            if (lengths != n).any():
                raise ValueError(f"row {int(np.argmax(lengths != n))} does not have {n} {name}")
        flat_routes = routes.flatten()
        route_lengths = _lengths(flat_routes)
        return cls(
            index=_array(table, "index").to_numpy().astype(np.int64),
            ids=ids.flatten().to_numpy().reshape(rows, n),
            demands=demands.flatten().to_numpy().reshape(rows, n),
            capacities=_array(table, "capacity").to_numpy(),
            costs=_array(table, "cost").to_numpy(),
            nodes=flat_routes.flatten().to_numpy(),
            route_of=np.repeat(np.arange(len(route_lengths)), route_lengths),
            row_of=np.repeat(np.arange(rows), _lengths(routes)),
        )

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Row r is ``paths[offsets[r]:offsets[r + 1]]``, int64 ``(N + 1,)``."""
        routes = np.bincount(self.row_of, minlength=len(self))
        visits = np.bincount(self._row_of_visit, minlength=len(self))
        return np.concatenate([[0], np.cumsum(routes + visits + 1)])

    @cached_property
    def paths(self) -> NDArray[np.uint32]:
        """The sequences 0, route, 0, ..., 0 of all rows, concatenated, in node numbers."""
        paths = np.zeros(self.offsets[-1], dtype=np.uint32)
        # Before a visit: all earlier visits, one depot per earlier route, one leading depot per row so far.
        paths[np.arange(len(self.nodes)) + self.route_of + self._row_of_visit + 1] = self.nodes
        return paths

    @property
    def _row_of_visit(self) -> NDArray[np.int64]:
        return self.row_of[self.route_of]


def content_hash(labels: LabelArrays) -> str:
    """Return the sum, modulo 2^128, of a hash of every row's index, instance and routes."""
    ids = np.ascontiguousarray(labels.ids, dtype="<u4")
    demands = np.ascontiguousarray(labels.demands, dtype="<u2")
    words = np.stack([labels.index, labels.capacities], axis=1).astype("<u8")
    paths, offsets = labels.paths.astype("<u4"), labels.offsets
    total = 0
    for row in range(len(labels)):
        digest = hashlib.blake2b(words[row].tobytes(), digest_size=16)
        digest.update(ids[row].tobytes() + demands[row].tobytes())
        digest.update(paths[offsets[row] : offsets[row + 1]].tobytes())
        total += int.from_bytes(digest.digest(), "little")
    return f"{total % 2**128:032x}"


def add_contents(contents: Sequence[str]) -> str:
    """Return the content hash of all rows from the content hashes of parts of them."""
    return f"{sum(int(content, 16) for content in contents) % 2**128:032x}"


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    return np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
