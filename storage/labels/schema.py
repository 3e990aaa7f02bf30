"""Schema of the labels: one as a row of Parquet and as an object, and the footer of a file of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from mcvrp.model.problem import Instance, Solution
from mcvrp.storage.versions import LABEL, refuse_newer

DRIVEN = "driven"  # the source of routes that people drove
SOLVED = "solver"  # the source of routes that a solver found
MODEL = "model"  # the source of routes that a model of ours found, better than those before

SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("index", pa.uint32()),
            ("ids", pa.list_(pa.uint32())),
            ("demands", pa.list_(pa.uint16())),
            ("capacity", pa.uint32()),
            ("routes", pa.list_(pa.list_(pa.uint32()))),
            ("cost", pa.float64()),
            ("source", pa.string()),
            ("solver", pa.string()),
            ("version", pa.string()),
            ("seed", pa.uint64()),
            ("budget", pa.string()),
            ("runtime", pa.float64()),
            ("cpu", pa.string()),
        )
    ]
)
MADE_BY = ("source", "solver", "version", "budget", "cpu")  # the columns that say who made a label
_CHECK = b"check"  # holds the checksum of the footer itself


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
    """Footer of a file of labels: rows ``row_start`` to ``row_stop`` (excluded) of size ``n``.

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

    def row_of(self, i: int) -> int | None:
        """Return the row of instance ``i`` within the file, None where it has none."""
        if not self.row_start <= i < self.row_stop or i in self.absent:
            return None
        return i - self.row_start - sum(absent < i for absent in self.absent)

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


def _checksum(metadata: dict[bytes, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for key, value in sorted(metadata.items()):
        digest.update(b"%d %s %d %s" % (len(key), key, len(value), value))
    return digest.hexdigest().encode()


def label_table(labels: Sequence[Label]) -> pa.Table:
    """Return ``labels`` as a table with `SCHEMA`."""
    if not labels:
        return SCHEMA.empty_table()
    sizes = _offsets([label.instance.n for label in labels])
    routes = [route for label in labels for route in label.solution.routes]
    nodes = np.array([node for route in routes for node in route], dtype=np.uint32)
    flat_routes = pa.ListArray.from_arrays(_offsets([len(route) for route in routes]), pa.array(nodes))
    nested = {
        "ids": pa.ListArray.from_arrays(sizes, np.concatenate([label.instance.ids for label in labels])),
        "demands": pa.ListArray.from_arrays(
            sizes, np.concatenate([label.instance.demands for label in labels])
        ),
        "capacity": pa.array([label.instance.capacity for label in labels], pa.uint32()),
        "routes": pa.ListArray.from_arrays(
            _offsets([len(label.solution.routes) for label in labels]), flat_routes
        ),
    }
    columns = [
        nested[field.name]
        if field.name in nested
        else pa.array([getattr(label, field.name) for label in labels], field.type)
        for field in SCHEMA
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


def _offsets(lengths: Sequence[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
