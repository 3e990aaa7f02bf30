"""What a label is, as a row of Parquet and as an object, and how tables of labels are made and proved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import COST_TOLERANCE, DEPOT, City, Instance, Solution
from mcvrp.storage.versions import LABEL, refuse_newer

DRIVEN = "driven"  # the source of routes that people drove
SOLVED = "solver"  # the source of routes that a solver found
MODEL = "model"  # the source of routes that a model of ours found, better than those before

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
        pa.field("cpu", pa.string(), nullable=False),
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
        "solver", "driven" or "model".
    solver, version, seed, budget
        Who solved it, and how: enough to do it again.
    runtime
        Seconds that the solver took.
    cpu
        Name of the processor that it took them on.
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
    cpu: str


@dataclass(frozen=True)
class Footer:
    """What a file of labels says about itself: rows ``row_start`` to ``row_stop`` (excluded) of size ``n``.

    ``absent`` are the rows of that range that have no label: no solver has solved them so far.
    ``content`` adds up a hash of each row's instance and routes, so that it depends on neither the
    order of the rows nor how they are split into files, nor on how long a solver took. ``makers`` is
    a hash of all that ``content`` leaves out: a shard that is made again has another one.
    """

    spec_hash: str
    city_id: str
    n: int
    row_start: int
    row_stop: int
    content: str
    absent: tuple[int, ...] = ()
    makers: str = ""
    schema_version: int = LABEL.version

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.row_stop - self.row_start - len(self.absent)

    def metadata(self) -> dict[bytes, bytes]:
        """Return the footer as Parquet key-value metadata, with a checksum of itself."""
        text = {f.name: str(getattr(self, f.name)) for f in fields(self)}
        text["absent"] = ",".join(map(str, self.absent))
        there = {name.encode(): value.encode() for name, value in text.items()}
        return {**there, _CHECK: _checksum(there)}

    @classmethod
    def of(cls, metadata: dict[bytes, bytes] | None, where: str) -> Footer | None:
        """Return the footer in ``metadata`` of the file at ``where``, None when it is corrupt.

        Raises
        ------
        KeyError
            If it is no label file's.
        TooNew
            If it was written by a newer version of this program.
        ValueError
            If its version is another.
        """
        there = {key: value for key, value in (metadata or {}).items() if key != b"ARROW:schema"}
        names = {f.name.encode() for f in fields(cls)}
        if not names & there.keys():
            raise KeyError("no footer")
        check = there.pop(_CHECK, None)
        if there.get(b"schema_version") != b"1" and check != _checksum(there):
            return None
        version = there[b"schema_version"].decode()
        if version.isascii() and version.isdigit():
            refuse_newer(LABEL, int(version), where)
        if version != str(LABEL.version):
            raise ValueError(f"schema version {version}, this program reads {LABEL.version}")
        text = {name.decode(): there[name].decode() for name in names}
        return cls(
            spec_hash=text["spec_hash"],
            city_id=text["city_id"],
            n=int(text["n"]),
            row_start=int(text["row_start"]),
            row_stop=int(text["row_stop"]),
            content=text["content"],
            absent=tuple(int(row) for row in text["absent"].split(",") if row),
            makers=text["makers"],
        )


_CHECK = b"check"


def _checksum(metadata: dict[bytes, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for key, value in sorted(metadata.items()):
        digest.update(b"%d %s %d %s" % (len(key), key, len(value), value))
    return digest.hexdigest().encode()


def label_table(labels: Sequence[Label]) -> pa.Table:
    """Return ``labels`` as a table with `SCHEMA`."""
    if not labels:
        return SCHEMA.empty_table()
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
        pa.array([label.cpu for label in labels], pa.string()),
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


@dataclass(frozen=True)
class Fault:
    """A label that is wrong: the ``row`` of its table, its instance ``i``, and what it has that is wrong."""

    row: int
    i: int
    what: str


def prove(city: City, n: int, columns: Columns) -> None:
    """Check that every row serves its instance, and costs what it says.

    Raises
    ------
    McvrpError
        Naming the first row that does not, what is wrong with it, and the mend.
    """
    if found := faults(city, columns):
        raise McvrpError(
            f"the label of instance (n={n}, i={found[0].i}) has {found[0].what}: "
            "remove the file and label again"
        )


def faults(city: City, columns: Columns) -> list[Fault]:
    """Return every row of ``columns`` that does not serve its instance or costs something else, in order.

    Each row has its first fault only: later checks are made of the rows that have passed the earlier.
    """
    found: list[Fault] = []
    rows = np.arange(len(columns.index))
    for check in (_strangers, _disorder, _service, _loads, _prices):
        wrong = check(city, columns)
        if wrong:
            found += [Fault(int(rows[r]), int(columns.index[r]), what) for r, what in wrong.items()]
            good = np.ones(len(rows), dtype=np.bool_)
            good[list(wrong)] = False
            rows, columns = rows[good], columns.take(good)
    return sorted(found, key=lambda fault: fault.row)


def _strangers(city: City, columns: Columns) -> dict[int, str]:
    wrong = ((columns.ids <= DEPOT) | (columns.ids > city.customers)).any(axis=1)
    return dict.fromkeys(np.flatnonzero(wrong).tolist(), "a customer that the city has not")


def _disorder(city: City, columns: Columns) -> dict[int, str]:
    wrong = (columns.ids[:, 1:] <= columns.ids[:, :-1]).any(axis=1)
    return dict.fromkeys(np.flatnonzero(wrong).tolist(), "customers that are not distinct and ascending")


def _service(city: City, columns: Columns) -> dict[int, str]:
    asked, served, order = _visits(columns)
    if len(asked) == len(served) and np.array_equal(asked, served[order]):
        return {}
    visits, counts = np.unique(served, return_counts=True)
    off = np.union1d(np.setxor1d(asked, visits), visits[counts > 1])
    rows, first = np.unique(off >> _NODE_BITS, return_index=True)
    nodes = off[first] & (2**_NODE_BITS - 1)
    return {
        int(row): f"routes that do not serve customer {node} exactly once"
        for row, node in zip(rows, nodes, strict=True)
    }


def _loads(city: City, columns: Columns) -> dict[int, str]:
    _, served, order = _visits(columns)
    demand = np.empty(len(served), dtype=np.int64)
    demand[order] = columns.demands.ravel()
    loads = np.bincount(columns.route_of, demand, minlength=len(columns.row_of))
    over = loads > columns.capacities[columns.row_of]
    return dict.fromkeys(columns.row_of[over].tolist(), "a route that carries more than a vehicle holds")


def _prices(city: City, columns: Columns) -> dict[int, str]:
    if not len(columns.index):
        return {}
    paths, offsets = columns.paths()
    legs = city.legs(paths)
    legs[offsets[1:-1] - 1] = 0.0  # from the last depot of a row to the first of the next
    costs = np.add.reduceat(legs, offsets[:-1])
    wrong = ~np.isclose(columns.costs, costs, rtol=COST_TOLERANCE, atol=COST_TOLERANCE)
    return {
        int(row): f"cost {float(columns.costs[row])!r} where its routes cost {float(costs[row])!r}"
        for row in np.flatnonzero(wrong)
    }


_NODE_BITS = 32  # a visit is (row, node) as one number


def _visits(columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the visits that are asked, those that are made, and the order that sorts the latter."""
    asked = (np.arange(len(columns.ids))[:, None] << _NODE_BITS) + columns.ids
    served = (columns.row_of[columns.route_of] << _NODE_BITS) + columns.nodes
    return asked.ravel(), served, np.argsort(served, kind="stable")


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


# A table of labels as flat arrays, and the hash of what they hold

MADE_BY = ("source", "solver", "version", "budget", "cpu")  # the columns that say who made a label


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
