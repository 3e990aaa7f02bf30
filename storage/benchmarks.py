"""Benchmark results in the store: parts of one method and size, and the table derived from them.

A part is a file of consecutive instances, written atomically. Its folder, the block, is named by the method
and a hash of everything that determines the answers, so that an existing part is complete and a changed
setting matches none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields

import pyarrow as pa

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store

_ROWS = re.compile(r"([^/]+)/n=(\d{3,})/rows-(\d{5,})-(\d{5,})\.parquet$")

_TEXT, _COUNT, _REAL, _ROUTES = pa.string(), pa.uint32(), pa.float64(), pa.list_(pa.list_(pa.uint32()))
_COMMON = {"method": _TEXT, "n": _COUNT, "index": _COUNT}
_ORIGIN = {
    "seed": pa.uint64(),
    "device": _TEXT,
    "workers": _COUNT,
    "machine": _TEXT,
    "version": _TEXT,
    "configuration": _TEXT,
    "failure": _TEXT,
}


def _schema(optional: set[str], **columns: pa.DataType) -> pa.Schema:
    return pa.schema(
        pa.field(name, kind, nullable=name in {"failure", *optional})
        for name, kind in {**_COMMON, **columns, **_ORIGIN}.items()
    )


_PART = _schema(
    {"routes"}, samples=pa.list_(_COUNT), seconds=pa.list_(_REAL), costs=pa.list_(_REAL), routes=_ROUTES
)
RESULTS = _schema(
    {"cost", "seconds", "costs", "routes"},
    samples=_COUNT,
    cost=_REAL,
    seconds=_REAL,
    feasible=pa.bool_(),
    costs=pa.list_(_REAL),
    routes=_ROUTES,
)

Routes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PartRow:
    """Answer of a method to one instance.

    ``costs`` has the cost of each sample, infinite if infeasible; only one cost if the samples have a common
    outcome. ``workers`` instances were solved in parallel, each on ``device`` of ``machine``.
    """

    method: str
    n: int
    index: int
    samples: tuple[int, ...]  # numbers of samples to report, ascending
    seconds: tuple[float, ...]  # wall-clock time at each of them
    costs: tuple[float, ...]
    routes: Routes | None  # of the best sample
    seed: int
    device: str
    workers: int
    machine: str
    version: str
    configuration: str
    failure: str | None = None  # reason why there is no solution


@dataclass(frozen=True)
class StoredPart:
    """Stored part: instances ``start`` to ``stop`` (excluded) of size ``n`` in ``block``."""

    path: str
    block: str
    n: int
    start: int
    stop: int


def stored_parts(store: Store, run: str) -> list[StoredPart]:
    """Return the parts of a run, of all methods and settings, sorted by path."""
    matches = ((path, _ROWS.search(path)) for path in store.list(f"{layout.benchmark_dir(run)}/parts"))
    return [
        StoredPart(path, match[1], int(match[2]), int(match[3]), int(match[4]))
        for path, match in matches
        if match
    ]


def write_part(store: Store, path: str, rows: Sequence[PartRow]) -> None:
    """Write ``rows`` to ``path`` atomically."""
    write_parquet(store, path, pa.Table.from_pylist([asdict(row) for row in rows], _PART))


def read_part(store: Store, path: str) -> list[PartRow]:
    """Return the rows of a part; McvrpError if it is corrupt or holds other instances than its name says."""
    table = read_parquet(store, path, columns=_PART)
    url = store.url(path)
    rows = [as_document(row, PartRow, url, named="part", hint="remove it") for row in table.to_pylist()]
    match = _ROWS.search(path)
    expected = list(range(int(match[3]), int(match[4]))) if match else []
    if [row.index for row in rows] != expected:
        raise McvrpError(f"{url} holds other instances than its name says: remove it")
    return rows


def write_results(store: Store, run: str, rows: Sequence[PartRow]) -> pa.Table:
    """Write and return the table derived from ``rows``, one row per number of samples.

    Routes and the costs of all samples are in the row of the largest number; the others are prefixes of it.
    """
    table = pa.Table.from_pylist([line for row in rows for line in _prefixes(row)], RESULTS)
    write_parquet(store, layout.benchmark_results(run), table)
    return table


def _prefixes(row: PartRow) -> Iterator[dict[str, object]]:
    shared = {f.name: getattr(row, f.name) for f in fields(row)}
    for samples, seconds in zip(row.samples, row.seconds, strict=True):
        # fewer samples are a prefix: the best of 100 is the best of the first 100
        best = min(row.costs[:samples], default=float("inf"))
        feasible = best < float("inf")
        largest = samples == row.samples[-1]
        failure = None if feasible else row.failure or "no sample was feasible"
        yield shared | {
            "samples": samples,
            "cost": best if feasible else None,
            "seconds": seconds if feasible else None,
            "feasible": feasible,
            "costs": row.costs if largest else None,
            "routes": row.routes if largest else None,
            "failure": failure,
        }
