"""Labels of one size as flat arrays, and the hashes of what a table of them holds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.storage.labels.schema import MADE_BY


@dataclass(frozen=True)
class Columns:
    """A table of labels of one size as flat arrays, N rows of n customers each.

    ``ids`` and ``demands`` are ``(N, n)``, ``capacities`` and ``costs`` ``(N,)``; ``nodes`` are the
    served customers of all routes in order, ``route_of`` the route of each and ``row_of`` the row
    of each route.
    """

    index: NDArray[np.int64]
    ids: NDArray[np.uint32]
    demands: NDArray[np.uint16]
    capacities: NDArray[np.uint32]
    costs: NDArray[np.float64]
    nodes: NDArray[np.uint32]
    route_of: NDArray[np.int64]
    row_of: NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table, n: int) -> Columns:
        """Return the columns of ``table``; ValueError when a row has not ``n`` customers."""
        rows = table.num_rows
        ids, demands, routes = (_array(table, name) for name in ("ids", "demands", "routes"))
        for name, lists in (("ids", ids), ("demands", demands)):
            lengths = _lengths(lists)
            if (lengths != n).any():
                raise ValueError(f"row {int(np.argmax(lengths != n))} has not {n} {name}")
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

    def take(self, rows: NDArray[np.bool_]) -> Columns:
        """Return the rows that are True in ``rows``, ``(N,)``."""
        routes = rows[self.row_of]
        nodes = routes[self.route_of]
        return Columns(
            index=self.index[rows],
            ids=self.ids[rows],
            demands=self.demands[rows],
            capacities=self.capacities[rows],
            costs=self.costs[rows],
            nodes=self.nodes[nodes],
            route_of=(np.cumsum(routes) - 1)[self.route_of[nodes]],
            row_of=(np.cumsum(rows) - 1)[self.row_of[routes]],
        )

    def paths(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return all sequences 0, route, 0, ..., 0 on end, and where each row's begins, ``(N + 1,)``."""
        rows = len(self.index)
        visits = self.row_of[self.route_of]
        lengths = np.bincount(self.row_of, minlength=rows) + np.bincount(visits, minlength=rows) + 1
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        paths = np.zeros(offsets[-1], dtype=np.uint32)
        # before a node: the nodes before it, a depot a route before it, a leading depot a row
        paths[np.arange(len(self.nodes)) + self.route_of + visits + 1] = self.nodes
        return paths, offsets


def content_hash(columns: Columns) -> str:
    """Return the sum, modulo 2^128, of a hash of every row's index, instance and routes."""
    paths, offsets = columns.paths()
    ids = np.ascontiguousarray(columns.ids, dtype="<u4")
    demands = np.ascontiguousarray(columns.demands, dtype="<u2")
    words = np.stack([columns.index, columns.capacities], axis=1).astype("<u8")
    nodes = paths.astype("<u4")
    total = 0
    for row in range(len(ids)):
        digest = hashlib.blake2b(words[row].tobytes(), digest_size=16)
        digest.update(ids[row].tobytes() + demands[row].tobytes())
        digest.update(nodes[offsets[row] : offsets[row + 1]].tobytes())
        total += int.from_bytes(digest.digest(), "little")
    return f"{total % 2**128:032x}"


def makers_hash(table: pa.Table) -> str:
    """Return a hash of who made each label of ``table``, how, and how long that took."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("cost", "seed", "runtime"):
        digest.update(table[name].to_numpy().tobytes())
    for name in MADE_BY:
        digest.update("\0".join(table[name].to_pylist()).encode() + b"\0\0")
    return digest.hexdigest()


def add_contents(contents: Sequence[str]) -> str:
    """Return the content hash of all rows from those of parts of them."""
    return f"{sum(int(content, 16) for content in contents) % 2**128:032x}"


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    return np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
