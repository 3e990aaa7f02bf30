"""Schema of labels: a label as a row of Parquet and as an object, and the footer of a label file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import Instance, Solution

SCHEMA_VERSION = 3  # of label files, and of the spec of their dataset
DRIVEN = "driven"  # source of routes that drivers took
SOLVED = "solver"  # source of routes that a solver found
MODEL = "model"  # source of routes that a model found, better than the earlier ones

_COLUMNS = {
    "index": pa.uint32(),
    "ids": pa.list_(pa.uint32()),
    "demands": pa.list_(pa.uint16()),
    "capacity": pa.uint32(),
    "routes": pa.list_(pa.list_(pa.uint32())),
    "cost": pa.float64(),
    "source": pa.string(),
    "solver": pa.string(),
    "version": pa.string(),
    "seed": pa.uint64(),
    "budget": pa.string(),
    "runtime": pa.float64(),
    "cpu": pa.string(),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])
MADE_BY = ("source", "solver", "version", "budget", "cpu")  # columns of the provenance of a label
_CHECK = b"check"  # key of the checksum of the footer itself
_COUNTS, _TOTALS = ("n", "row_start", "row_stop", "routes", "schema_version"), ("cost", "runtime")


@dataclass(frozen=True)
class Label:
    """An instance with its routes and their provenance."""

    index: int  # i of instance (n, i)
    instance: Instance
    solution: Solution  # canonical
    cost: float  # float64, in the city's unit, computed from the city
    source: str  # DRIVEN, SOLVED or MODEL
    solver: str  # with version, seed and budget sufficient to repeat the run
    version: str
    seed: int
    budget: str
    runtime: float  # of the solver, in seconds
    cpu: str  # name of the processor that the solver ran on


class OtherSchema(McvrpError):
    """A label file is of another version of mcvrp; the message names both."""


@dataclass(frozen=True)
class Footer:
    """Footer of a label file: rows ``row_start`` to ``row_stop`` (excluded) of size ``n``.

    ``absent`` are rows of that range without a label, and why they have none. ``content`` is a sum of hashes
    of each row's instance and routes, independent of the order of the rows, their split into files and the
    runtime of the solver. ``cost`` (in the city's unit), ``routes`` and ``runtime`` (in seconds) are totals.
    """

    spec_hash: str
    city_id: str
    n: int
    row_start: int
    row_stop: int
    content: str
    cost: float
    routes: int
    runtime: float
    absent: Mapping[int, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def rows(self) -> int:
        return self.row_stop - self.row_start - len(self.absent)

    def metadata(self) -> dict[bytes, bytes]:
        """Return the footer as Parquet key-value metadata, with its checksum."""
        text = {f.name: str(getattr(self, f.name)) for f in fields(self)}
        text["absent"] = json.dumps({str(row): why for row, why in sorted(self.absent.items())})
        metadata = {name.encode(): value.encode() for name, value in text.items()}
        return {**metadata, _CHECK: _checksum(metadata)}

    @classmethod
    def of(cls, metadata: dict[bytes, bytes] | None, where: str) -> Footer | None:
        """Return the footer in ``metadata`` of the file at ``where``, None if it is corrupt.

        KeyError if the file is not a label file, OtherSchema if it has another version.
        """
        stored = {key: value for key, value in (metadata or {}).items() if key != b"ARROW:schema"}
        names = {f.name.encode() for f in fields(cls)}
        if not names & stored.keys():
            raise KeyError("no footer")
        if stored.pop(_CHECK, None) != _checksum(stored):
            return None
        if (version := int(stored[b"schema_version"])) != SCHEMA_VERSION:
            raise OtherSchema(
                f"{where} has labels of schema version {version}, this version of mcvrp reads "
                f"{SCHEMA_VERSION}: use the version that wrote it"
            )
        values: dict[str, Any] = {name.decode(): stored[name].decode() for name in names}
        values |= {name: int(values[name]) for name in _COUNTS} | {k: float(values[k]) for k in _TOTALS}
        values["absent"] = {int(row): str(why) for row, why in json.loads(values["absent"]).items()}
        return cls(**values)


def _checksum(metadata: dict[bytes, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for key, value in sorted(metadata.items()):
        digest.update(b"%d %s %d %s" % (len(key), key, len(value), value))
    return digest.hexdigest().encode()


def label_table(labels: Sequence[Label]) -> pa.Table:
    """Return ``labels`` as a table with `SCHEMA`."""
    rows = [
        {
            **vars(label),
            "ids": label.instance.ids,
            "demands": label.instance.demands,
            "capacity": label.instance.capacity,
            "routes": label.solution.routes,
        }
        for label in labels
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def table_labels(table: pa.Table, city_id: str) -> Iterator[Label]:
    """Yield the labels of ``table`` as objects, in order."""
    for row in table.to_pylist():
        yield Label(
            instance=Instance(city_id, row.pop("ids"), row.pop("demands"), row.pop("capacity")),
            solution=Solution.of(row.pop("routes")),
            **row,
        )
