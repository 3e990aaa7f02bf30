"""Verification of one label file from its bytes: every row against the spec, the city and the footer.

Whatever the bytes are, the result is a list of faults and the rows that are good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import reason
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays, content_hash
from mcvrp.storage.labels.checks import RowFault, row_faults
from mcvrp.storage.labels.schema import SCHEMA, Footer
from mcvrp.storage.labels.shards import Shard
from mcvrp.storage.labels.verification import FileFault
from mcvrp.tasks.label.spec import Source

_MOST_FAULTS = 1_000  # listed per file; the others are counted
_MOST_CHARACTERS = 160  # of a message of a library
_TIE = 1e-9  # areas and angles that differ by less are compared by `canonical` itself
_SHORTEST_RUNTIME = 1e-9  # seconds: a corrupt encoding yields tiny numbers, no solver is as fast


@dataclass
class FileReport:
    """Findings of the verification of one file.

    ``footer`` is None if it cannot be read. ``rows`` is the number of ``good`` rows, which are one table per
    row group.
    """

    path: str
    sha256: str
    footer: Footer | None = None
    faults: list[FileFault] = field(default_factory=list)
    rows: int = 0
    good: list[pa.Table] = field(default_factory=list)

    def add(self, what: str, row: int | None = None, i: int | None = None) -> None:
        """Add a fault of the file, or of one ``row``, which has instance (n, i)."""
        n = self.footer.n if self.footer and i is not None else None
        self.faults.append(FileFault(self.path, self.sha256, what, n, row, i))

    def good_rows(self) -> pa.Table:
        """Return the good rows by index, each once."""
        table = pa.concat_tables([SCHEMA.empty_table(), *self.good])
        _, first = np.unique(table["index"].to_numpy(), return_index=True)
        return table.take(pa.array(first, pa.int64()))


def verify_file(data: bytes, path: str, source: Source, listed: Shard | None = None) -> FileReport:
    """Verify the label file whose bytes are ``data``, with the checksum of the shard that is ``listed``.

    ``path`` is its path in the store, which determines the rows that the file may have.
    """
    report = FileReport(path, hashlib.sha256(data).hexdigest())
    opened = _open(data, report)
    # A shard that has been written again since it was listed has another footer.
    if listed and listed.footer == report.footer and listed.sha256 != report.sha256:
        report.add(f"its SHA-256 is {report.sha256[:12]}…, {listed.sha256[:12]}… when it was written")
    if opened is None:
        return report
    file, footer, expected = opened
    for what in misplaced(path, footer, source):
        report.add(what)
    rows = _check_row_groups(file, report, source, footer.n, expected)
    _check_whole(report, footer, rows)
    report.rows = sum(table.num_rows for table in report.good)
    if len(report.faults) > _MOST_FAULTS:
        more = len(report.faults) - _MOST_FAULTS
        del report.faults[_MOST_FAULTS:]
        report.add(f"{more:,} more faults")
    return report


def _open(data: bytes, report: FileReport) -> tuple[pq.ParquetFile, Footer, NDArray[np.int64]] | None:
    """Return the file, its footer and the index of its rows, or None with the reason in ``report``."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        schema = file.schema_arrow
        for group in range(file.metadata.num_row_groups):
            file.metadata.row_group(group)
    except Exception as error:  # corrupt bytes raise errors of any kind, here and below
        report.add(f"no whole Parquet file ({reason(error)[:_MOST_CHARACTERS]})")
        return None
    try:
        footer = Footer.of(schema.metadata, report.path)
        expected = _expected_index(footer) if footer else None
    except Exception as error:
        report.add(f"not a file of labels ({reason(error)[:_MOST_CHARACTERS]})")
        return None
    if footer is None or expected is None:
        report.add("a corrupt footer")
        return None
    report.footer = footer
    if not schema.remove_metadata().equals(SCHEMA):
        report.add("not the columns of a label file")
        return None
    return file, footer, expected


def _check_row_groups(
    file: pq.ParquetFile, report: FileReport, source: Source, n: int, expected: NDArray[np.int64]
) -> int:
    """Add the faults of every row and the good rows to ``report``; return the number of all rows."""
    first = 0
    for group in range(file.metadata.num_row_groups):
        try:
            table = file.read_row_group(group)
            table.validate(full=True)
        except Exception as error:
            length = file.metadata.row_group(group).num_rows
            what = f"rows {first} to {first + max(length, 1) - 1} cannot be read"
            i = int(expected[first]) if first < len(expected) else None
            report.add(f"{what} ({reason(error)[:_MOST_CHARACTERS]})", first, i)
            first += max(length, 0)
            continue
        right = np.ones(table.num_rows, dtype=np.bool_)
        for fault in _row_faults(table, source, n, expected):
            right[fault.row] = False
            report.add(fault.what, first + fault.row, fault.i)
        report.good.append(table if right.all() else table.filter(pa.array(right)))
        first += table.num_rows
    return first


def misplaced(path: str, footer: Footer, source: Source) -> Iterator[str]:
    """Yield the reasons why a file with ``footer`` does not belong at ``path``."""
    spec, recipe = source.spec, source.recipe
    if footer.city_id != source.city.city_id:
        yield f"labels of city {footer.city_id}, the dataset is of city {source.city.city_id}"
    if footer.spec_hash != recipe.spec_hash:
        yield f"made from spec {footer.spec_hash}, the dataset from {recipe.spec_hash}"
    k, rows = layout.shard_number(path), spec.shard_rows
    if in_staging(path, spec.dataset):
        stop = max(footer.row_stop, (layout.staged_rows(path) or (0, 0))[1])  # the chunk may not be whole yet
        if path != layout.staged_chunk(spec.dataset, footer.n, footer.row_start, stop):
            yield f"not the path of rows {footer.row_start} to {footer.row_stop} of n={footer.n}"
    elif k is None or path != layout.label_shard(spec.dataset, footer.n, k):
        yield f"not the path of a shard of n={footer.n}"
    elif footer.n not in spec.sizes or footer.row_stop > spec.count:
        extent = f"n={spec.smallest} to {spec.largest}, {spec.count} rows each"
        yield f"rows {footer.row_start} to {footer.row_stop} of n={footer.n}, the spec has {extent}"
    elif footer.row_start != k * rows or footer.row_stop > (k + 1) * rows:
        yield f"rows {footer.row_start} to {footer.row_stop}, expected {k * rows} to {(k + 1) * rows}"


def in_staging(path: str, dataset: str) -> bool:
    """Return whether ``path`` is in the staging folder of ``dataset``."""
    return path.startswith(layout.staging_dir(dataset) + "/")


def _expected_index(footer: Footer) -> NDArray[np.int64]:
    """Return the index of the rows that ``footer`` declares; ValueError if it is implausible."""
    start, stop = footer.row_start, footer.row_stop
    if not 0 <= start <= stop < 2**32 or stop - start > 2**28 or footer.n < 1:
        raise ValueError(f"a footer with rows {start} to {stop} of n={footer.n}")
    int(footer.content, 16)
    index = np.arange(start, stop)
    absent = np.array(footer.absent, dtype=np.int64)
    if len(np.unique(absent)) < len(absent) or not np.isin(absent, index).all():
        raise ValueError(f"a footer whose absent rows are not among {start} to {stop}")
    return np.setdiff1d(index, absent)


def _check_whole(report: FileReport, footer: Footer, rows: int) -> None:
    if rows != footer.rows:
        report.add(f"{rows} rows, its footer says {footer.rows}")
    elif report.good and sum(table.num_rows for table in report.good) == rows:
        content = content_hash(LabelArrays.of(pa.concat_tables(report.good), footer.n))
        if content != footer.content:
            report.add("its rows are valid, but have another hash than its footer")
            report.good = []  # which of them were replaced cannot be known


def _row_faults(table: pa.Table, source: Source, n: int, expected: NDArray[np.int64]) -> list[RowFault]:
    """Return the first fault of each wrong row of ``table``."""
    rows = table.num_rows
    try:
        labels = LabelArrays.of(table, n)
        first: dict[int, RowFault] = {}
        for fault in _all_faults(labels, table, source, n, expected):
            first.setdefault(fault.row, fault)
        return [first[row] for row in sorted(first)]
    except Exception as error:  # values of corrupt columns raise errors of any kind
        if rows == 0:
            return []
        if rows == 1:
            i = table["index"][0].as_py()
            return [RowFault(0, i, f"it is invalid ({reason(error)[:_MOST_CHARACTERS]})")]
    half = rows // 2  # rows that cannot be converted together: down to the one that is the cause
    left, right = (_row_faults(part, source, n, expected) for part in (table[:half], table[half:]))
    return left + [replace(fault, row=fault.row + half) for fault in right]


def _all_faults(
    labels: LabelArrays, table: pa.Table, source: Source, n: int, expected: NDArray[np.int64]
) -> Iterator[RowFault]:
    index = labels.index

    def faults(rows: NDArray[np.int64], what: Callable[[int], str]) -> Iterator[RowFault]:
        yield from (RowFault(row, int(index[row]), what(row)) for row in rows.tolist())

    declared = np.isin(index, expected)
    yield from faults(np.flatnonzero(~declared), lambda row: f"its index {index[row]} is not in the footer")
    unordered = np.flatnonzero(declared)[1:][np.diff(index[declared]) <= 0]
    yield from faults(unordered, lambda row: f"its index {index[row]} is not above the one before")
    sound = np.ones(len(index), dtype=np.bool_)
    for fault in row_faults(source.city, labels):
        sound[fault.row] = False
        yield replace(fault, what=f"it has {fault.what}")
    yield from _other_instances(labels, source.stream, n)
    # Of feasible rows only: canonical form is undefined for routes that do not serve the instance.
    turned = np.flatnonzero(sound)[_not_canonical(source.city, labels.take(sound))]
    yield from faults(turned, lambda _: "its routes are not in canonical form")
    runtimes = table["runtime"].to_numpy()
    plausible = np.isfinite(runtimes) & ((runtimes == 0) | (runtimes >= _SHORTEST_RUNTIME))
    yield from faults(np.flatnonzero(~plausible), lambda row: f"it has runtime {runtimes[row]}")


def _other_instances(labels: LabelArrays, stream: InstanceStream, n: int) -> Iterator[RowFault]:
    """Yield the rows whose instance differs from that of the spec."""
    for row, i in enumerate(labels.index.tolist()):
        instance = stream(n, i)
        if not np.array_equal(instance.ids, labels.ids[row]):
            yield RowFault(row, i, "its customers are not those of the instance")
        elif not np.array_equal(instance.demands, labels.demands[row]):
            yield RowFault(row, i, "its demands are not those of the instance")
        elif instance.capacity != labels.capacities[row]:
            what = f"it has capacity {labels.capacities[row]}, the instance {instance.capacity}"
            yield RowFault(row, i, what)


def _not_canonical(city: City, labels: LabelArrays) -> list[int]:
    """Return the rows whose routes differ from their canonical form."""
    # Orientation and order are computed for all routes at once, as `canonical` takes most of the time of a
    # verification; only rows that have a route near a tie are compared with `canonical`.
    nodes, routes, rows = labels.nodes, len(labels.row_of), len(labels)
    delta = city.xy[nodes] - city.xy[0]
    lengths = np.bincount(labels.route_of, minlength=routes)
    sums = [np.bincount(labels.route_of, delta[:, axis], minlength=routes) for axis in (0, 1)]
    angle = np.mod(np.arctan2(sums[1], sums[0]), 2 * np.pi)
    doubtful = (lengths == 0) | (angle < _TIE) | (angle > 2 * np.pi - _TIE)
    same_row = np.diff(labels.row_of) == 0
    doubtful[1:] |= same_row & (np.diff(angle) < _TIE)
    if city.symmetric:  # routes of an asymmetric cost matrix are never reversed
        cross = delta[:-1, 0] * delta[1:, 1] - delta[1:, 0] * delta[:-1, 1]
        inside = np.diff(labels.route_of) == 0
        area = np.bincount(labels.route_of[1:][inside], cross[inside], minlength=routes)
        doubtful |= (lengths > 1) & (area < _TIE * city.scale**2)
    wrong = []
    starts = np.searchsorted(labels.row_of, np.arange(rows + 1))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    for row in np.unique(labels.row_of[doubtful]).tolist():
        stored = tuple(
            tuple(nodes[bounds[k] : bounds[k + 1]].tolist()) for k in range(starts[row], starts[row + 1])
        )
        if canonical(city, Solution.of(stored)).routes != stored:
            wrong.append(row)
    return wrong
