"""What a label is, as a row of Parquet and as an object, and how tables of labels are made and proved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from model.errors import McvrpError
from model.problem import DEPOT, City, Instance, Solution

LABEL_SCHEMA_VERSION = 1
DRIVEN = "driven"  # the source of routes that people drove
SOLVED = "solver"  # the source of routes that a solver found

SCHEMA = pa.schema(
    [
        pa.field("index", pa.uint32(), nullable=False),
        pa.field("ids", pa.list_(pa.uint32()), nullable=False),
        pa.field("demands", pa.list_(pa.uint16()), nullable=False),
        pa.field("capacity", pa.uint32(), nullable=False),
        pa.field("routes", pa.list_(pa.list_(pa.uint32())), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("solver", pa.string(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("seed", pa.uint64(), nullable=False),
        pa.field("budget", pa.string(), nullable=False),
        pa.field("runtime", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Label:
    """An instance with its routes, and where they come from.

    Parameters
    ----------
    index
        The i of instance (n, i).
    instance, solution
        What was asked and the canonical answer.
    cost
        Float64 cost in the city's unit, computed from the city.
    source
        "solver" or "driven".
    solver, version, seed, budget
        Who solved it, and how: enough to do it again.
    runtime
        Seconds that the solver took.
    """

    index: int
    instance: Instance
    solution: Solution
    cost: float
    source: str
    solver: str
    version: str
    seed: int
    budget: str
    runtime: float


@dataclass(frozen=True)
class Footer:
    """What a file of labels says about itself: rows ``row_start`` to ``row_stop`` (excluded) of size ``n``.

    ``content`` adds up a hash of each row's instance and routes, so that it depends on neither the
    order of the rows nor how they are split into files, nor on how long a solver took.
    """

    spec_hash: str
    city_id: str
    n: int
    row_start: int
    row_stop: int
    content: str
    schema_version: int = LABEL_SCHEMA_VERSION

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.row_stop - self.row_start

    def metadata(self) -> dict[bytes, bytes]:
        """Return the footer as Parquet key-value metadata."""
        return {f.name.encode(): str(getattr(self, f.name)).encode() for f in fields(self)}

    @classmethod
    def of(cls, metadata: dict[bytes, bytes] | None) -> Footer:
        """Return the footer in ``metadata``; KeyError or ValueError when it is not a label file's."""
        text = {
            key.decode(): value.decode() for key, value in (metadata or {}).items() if key != b"ARROW:schema"
        }
        footer = cls(
            spec_hash=text["spec_hash"],
            city_id=text["city_id"],
            n=int(text["n"]),
            row_start=int(text["row_start"]),
            row_stop=int(text["row_stop"]),
            content=text["content"],
            schema_version=int(text["schema_version"]),
        )
        if footer.schema_version != LABEL_SCHEMA_VERSION:
            raise ValueError(
                f"schema version {footer.schema_version}, this program reads {LABEL_SCHEMA_VERSION}"
            )
        return footer


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

    def paths(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return all sequences 0, route, 0, ..., 0 on end, and where each row's begins, ``(N + 1,)``."""
        rows, n = self.ids.shape
        lengths = np.bincount(self.row_of, minlength=rows) + n + 1
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        paths = np.zeros(offsets[-1], dtype=np.uint32)
        # before a node: the nodes before it, a depot a route before it, a leading depot a row
        paths[np.arange(len(self.nodes)) + self.route_of + self.row_of[self.route_of] + 1] = self.nodes
        return paths, offsets


def label_table(labels: Sequence[Label]) -> pa.Table:
    """Return ``labels`` as a table with `SCHEMA`."""
    ids = np.concatenate([label.instance.ids for label in labels])
    demands = np.concatenate([label.instance.demands for label in labels])
    sizes = _offsets([label.instance.n for label in labels])
    routes = [route for label in labels for route in label.solution.routes]
    nodes = np.array([node for route in routes for node in route], dtype=np.uint32)
    flat_routes = pa.ListArray.from_arrays(_offsets([len(route) for route in routes]), pa.array(nodes))
    columns = [
        pa.array([label.index for label in labels], pa.uint32()),
        pa.ListArray.from_arrays(sizes, pa.array(ids)),
        pa.ListArray.from_arrays(sizes, pa.array(demands)),
        pa.array([label.instance.capacity for label in labels], pa.uint32()),
        pa.ListArray.from_arrays(_offsets([len(label.solution.routes) for label in labels]), flat_routes),
        pa.array([label.cost for label in labels], pa.float64()),
        pa.array([label.source for label in labels], pa.string()),
        pa.array([label.solver for label in labels], pa.string()),
        pa.array([label.version for label in labels], pa.string()),
        pa.array([label.seed for label in labels], pa.uint64()),
        pa.array([label.budget for label in labels], pa.string()),
        pa.array([label.runtime for label in labels], pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def table_labels(table: pa.Table, city_id: str) -> Iterator[Label]:
    """Yield the labels of ``table`` as objects, in order."""
    for row in table.to_pylist():
        yield Label(
            instance=Instance(city_id, row.pop("ids"), row.pop("demands"), row.pop("capacity")),
            solution=Solution.of(row.pop("routes")),
            **row,
        )


def prove(city: City, n: int, columns: Columns) -> None:
    """Check that every row serves its instance, and costs what it says.

    Raises
    ------
    McvrpError
        Naming the row, what is wrong with it, and the mend.
    """
    ids = columns.ids.astype(np.int64)
    if ids.size and (ids.min() <= DEPOT or ids.max() > city.customers):
        raise _wrong(n, columns, (ids <= DEPOT) | (ids > city.customers), "a customer that the city has not")
    if (unsorted := (np.diff(ids, axis=1) <= 0)).any():
        raise _wrong(n, columns, unsorted, "customers that are not distinct and ascending")
    rows_of_nodes = columns.row_of[columns.route_of]
    span = city.customers + 1  # (row, node) as one number: sorted, the served are the asked
    asked = (np.arange(len(ids))[:, None] * span + ids).ravel()
    served = rows_of_nodes * span + columns.nodes
    order = np.argsort(served, kind="stable")
    if len(asked) != len(served) or not np.array_equal(asked, served[order]):
        _, count = np.unique(np.concatenate([np.unique(asked), served]), return_counts=True)
        values = np.unique(np.concatenate([np.unique(asked), served]))
        row, node = divmod(int(values[count != 2][0]), span)
        raise McvrpError(
            f"the label of instance (n={n}, i={columns.index[row]}) does not serve "
            f"customer {node} exactly once: remove the file and label again"
        )
    demand = np.empty(len(served), dtype=np.int64)
    demand[order] = columns.demands.ravel()
    loads = np.bincount(columns.route_of, demand, minlength=len(columns.row_of))
    if (over := loads > columns.capacities[columns.row_of]).any():
        row = int(columns.row_of[np.argmax(over)])
        raise _wrong(n, columns, np.arange(len(ids)) == row, "a route that carries more than a vehicle holds")
    paths, offsets = columns.paths()
    legs = city.legs(paths)
    legs[offsets[1:-1] - 1] = 0.0  # from the last depot of a row to the first of the next
    costs = np.add.reduceat(legs, offsets[:-1]) if len(ids) else np.zeros(0)
    if (off := ~np.isclose(columns.costs, costs, rtol=1e-9, atol=1e-9)).any():
        row = int(np.argmax(off))
        what = f"cost {float(columns.costs[row])!r} where its routes cost {float(costs[row])!r}"
        raise _wrong(n, columns, off, what)


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


def add_contents(contents: Sequence[str]) -> str:
    """Return the content hash of all rows from those of parts of them."""
    return f"{sum(int(content, 16) for content in contents) % 2**128:032x}"


def _wrong(n: int, columns: Columns, where: NDArray[np.bool_], what: str) -> McvrpError:
    row = int(np.argwhere(where)[0][0])
    return McvrpError(
        f"the label of instance (n={n}, i={columns.index[row]}) has {what}: remove the file and label again"
    )


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    return np.asarray(lists.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
