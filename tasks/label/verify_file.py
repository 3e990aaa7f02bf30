"""Verification of one file of labels from its bytes: every row against the spec, the city and the footer.

Whatever the bytes are, the result is a list of what is wrong with them, and the rows that are right.
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
from mcvrp.storage.labels.verification import FileFault
from mcvrp.tasks.label.spec import Source

_MOST_FAULTS = 1_000  # listed a file; more are counted
_LONGEST = 160  # characters of what a library says
_LEVEL = 1e-9  # areas and angles closer to a tie than this are compared exactly


@dataclass
class FileReport:
    """Findings of the verification of one file.

    Parameters
    ----------
    path, sha256
        The file and its checksum.
    footer
        None where it cannot be read.
    faults
        What is wrong with the file itself or with a row.
    rows
        How many rows are right.
    good
        Those rows, a table a row group.
    """

    path: str
    sha256: str
    footer: Footer | None = None
    faults: list[FileFault] = field(default_factory=list)
    rows: int = 0
    good: list[pa.Table] = field(default_factory=list)

    def good_rows(self) -> pa.Table:
        """Return the rows that are right, by index, each once."""
        table = pa.concat_tables([SCHEMA.empty_table(), *self.good])
        _, first = np.unique(table["index"].to_numpy(), return_index=True)
        return table.take(pa.array(first, pa.int64()))


def verify_file(data: bytes, path: str, source: Source, sha256: str | None = None) -> FileReport:
    """Verify the label file whose bytes are ``data``.

    Parameters
    ----------
    path
        Where it lies in the store: its place has to be the one of its rows.
    source
        Spec and city of its dataset.
    sha256
        The checksum that it should have, where that is known.
    """
    found = hashlib.sha256(data).hexdigest()
    report = FileReport(path, found)

    def wrong(what: str, row: int | None = None, i: int | None = None) -> None:
        report.faults.append(FileFault(path, found, what, None if i is None else n, row, i))

    n = 0
    if sha256 is not None and sha256 != found:
        wrong(f"its SHA-256 is {found[:12]}…, {sha256[:12]}… when it was written")
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        schema, groups = file.schema_arrow, file.metadata.num_row_groups
        lengths = [file.metadata.row_group(g).num_rows for g in range(groups)]
    except Exception as error:  # bytes of any kind raise errors of any kind
        wrong(f"no whole Parquet file ({reason(error)[:_LONGEST]})")
        return report
    try:
        footer = Footer.of(schema.metadata, path)
        expected = _expected_index(footer) if footer else None
    except Exception as error:
        wrong(f"not a file of labels ({reason(error)[:_LONGEST]})")
        return report
    if footer is None or expected is None:
        wrong("a corrupt footer")
        return report
    report.footer = footer
    if not schema.remove_metadata().equals(SCHEMA):
        wrong("not the columns of a label file")
        return report
    n = footer.n
    for what in misplaced(path, footer, source):
        wrong(what)
    first = 0
    for group, length in enumerate(lengths):
        try:
            table = file.read_row_group(group)
            table.validate(full=True)
        except Exception as error:
            last = first + max(length, 1) - 1
            i = int(expected[first]) if first < len(expected) else None
            wrong(f"rows {first} to {last} cannot be read ({reason(error)[:_LONGEST]})", first, i)
            first += max(length, 0)
            continue
        right = np.ones(table.num_rows, dtype=np.bool_)
        for fault in _row_faults(table, source, n, expected):
            right[fault.row] = False
            wrong(fault.what, first + fault.row, fault.i)
        report.good.append(table if right.all() else table.filter(pa.array(right)))
        first += table.num_rows
    _check_whole(report, first, wrong)
    report.rows = sum(table.num_rows for table in report.good)
    if len(report.faults) > _MOST_FAULTS:
        more = len(report.faults) - _MOST_FAULTS
        del report.faults[_MOST_FAULTS:]
        wrong(f"{more:,} more faults")
    return report


def misplaced(path: str, footer: Footer, source: Source) -> Iterator[str]:
    """Yield why a file with ``footer`` does not belong at ``path``: nothing where it does."""
    spec, recipe = source.spec, source.recipe
    if footer.city_id != source.city.city_id:
        yield f"labels of city {footer.city_id}, the dataset is of city {source.city.city_id}"
    if footer.spec_hash != recipe.spec_hash:
        yield f"made from spec {footer.spec_hash}, the dataset from {recipe.spec_hash}"
    k, rows = layout.shard_number(path), spec.shard_rows
    if in_staging(path, spec.dataset):
        if path != layout.staged_chunk(spec.dataset, footer.n, footer.row_start, footer.row_stop):
            yield f"no name for rows {footer.row_start} to {footer.row_stop} of n={footer.n}"
    elif k is None or path != layout.label_shard(spec.dataset, footer.n, k):
        yield f"no shard's name for n={footer.n}"
    elif footer.n not in spec.sizes or footer.row_stop > spec.count:
        there = f"n={spec.smallest} to {spec.largest}, {spec.count} rows each"
        yield f"rows {footer.row_start} to {footer.row_stop} of n={footer.n}, the spec asks for {there}"
    elif footer.row_start != k * rows or footer.row_stop > (k + 1) * rows:
        here = f"this place is for {k * rows} to {(k + 1) * rows}"
        yield f"rows {footer.row_start} to {footer.row_stop}, {here}"


def in_staging(path: str, dataset: str) -> bool:
    """Return whether ``path`` lies where ``dataset`` has rows on their way into shards."""
    return path.startswith(layout.staging_dir(dataset) + "/")


def _expected_index(footer: Footer) -> NDArray[np.int64]:
    """Return the instances that the footer promises; ValueError when it cannot be believed."""
    start, stop = footer.row_start, footer.row_stop
    if not 0 <= start <= stop < 2**32 or stop - start > 2**28 or footer.n < 1:
        raise ValueError(f"a footer with rows {start} to {stop} of n={footer.n}")
    int(footer.content, 16)
    index = np.arange(start, stop)
    absent = np.array(footer.absent, dtype=np.int64)
    if len(np.unique(absent)) < len(absent) or not np.isin(absent, index).all():
        raise ValueError(f"a footer whose absent rows are not among {start} to {stop}")
    return np.setdiff1d(index, absent)


def _check_whole(report: FileReport, rows: int, wrong: Callable[[str], None]) -> None:
    assert report.footer is not None
    if rows != report.footer.rows:
        wrong(f"{rows} rows, its footer says {report.footer.rows}")
    elif report.good and sum(table.num_rows for table in report.good) == rows:
        content = content_hash(LabelArrays.of(pa.concat_tables(report.good), report.footer.n))
        if content != report.footer.content:  # nobody knows which of them
            wrong("its rows are right, but not those that its footer vouches for")
            report.good = []


def _row_faults(table: pa.Table, source: Source, n: int, expected: NDArray[np.int64]) -> list[RowFault]:
    """Return what is wrong with the rows of ``table``, the first fault of each row.

    Where the rows cannot even be taken together, halves are, down to the row that is to blame.
    """
    rows = table.num_rows
    try:
        columns = LabelArrays.of(table, n)
        first: dict[int, RowFault] = {}
        for fault in _all_faults(columns, table, source, n, expected):
            first.setdefault(fault.row, fault)
        return [first[row] for row in sorted(first)]
    except Exception as error:  # columns of any bytes raise errors of any kind
        if rows == 0:
            return []
        if rows == 1:
            i = table["index"][0].as_py()
            return [RowFault(0, i, f"it cannot be understood ({reason(error)[:_LONGEST]})")]
    half = rows // 2
    right = _row_faults(table.slice(half), source, n, expected)
    return [
        *_row_faults(table.slice(0, half), source, n, expected),
        *(replace(fault, row=fault.row + half) for fault in right),
    ]


def _all_faults(
    columns: LabelArrays, table: pa.Table, source: Source, n: int, expected: NDArray[np.int64]
) -> Iterator[RowFault]:
    index = columns.index

    def of(rows: NDArray[np.int64], what: Callable[[int], str]) -> Iterator[RowFault]:
        yield from (RowFault(row, int(index[row]), what(row)) for row in rows.tolist())

    ours = np.isin(index, expected)
    yield from of(np.flatnonzero(~ours), lambda row: f"its index {index[row]} is none of the file's")
    again = np.flatnonzero(ours)[1:][np.diff(index[ours]) <= 0]
    yield from of(again, lambda row: f"its index {index[row]} comes after a larger one, or twice")
    sound = np.ones(len(index), dtype=np.bool_)
    for fault in row_faults(source.city, columns):
        sound[fault.row] = False
        yield replace(fault, what=f"it has {fault.what}")
    yield from _other_instances(columns, source.stream, n)
    turned = np.flatnonzero(sound)[_not_canonical(source.city, columns.take(sound))]
    yield from of(turned, lambda _: "its routes are not in canonical form")
    runtimes = table["runtime"].to_numpy()
    # A corrupt encoding makes tiny numbers of them, too, and no solver takes less than a nanosecond.
    odd = np.flatnonzero(~(np.isfinite(runtimes) & ((runtimes == 0) | (runtimes >= 1e-9))))
    yield from of(odd, lambda row: f"it has runtime {runtimes[row]}")


def _other_instances(columns: LabelArrays, stream: InstanceStream, n: int) -> Iterator[RowFault]:
    """Yield the rows whose instance is not the one that the spec makes."""
    for row, i in enumerate(columns.index.tolist()):
        instance = stream(n, i)
        if not np.array_equal(instance.ids, columns.ids[row]):
            yield RowFault(row, i, "its customers are not those of the instance")
        elif not np.array_equal(instance.demands, columns.demands[row]):
            yield RowFault(row, i, "its demands are not those of the instance")
        elif instance.capacity != columns.capacities[row]:
            what = f"it has capacity {columns.capacities[row]}, the instance {instance.capacity}"
            yield RowFault(row, i, what)


def _not_canonical(city: City, columns: LabelArrays) -> list[int]:
    """Return the rows whose routes are not those of `canonical`, in its order.

    Orientation and order are computed for all routes at once; only rows with a route near a tie
    are put through `canonical` itself.
    """
    nodes, routes, rows = columns.nodes, len(columns.row_of), len(columns.index)
    delta = city.xy[nodes] - city.xy[0]
    lengths = np.bincount(columns.route_of, minlength=routes)
    sums = [np.bincount(columns.route_of, delta[:, axis], minlength=routes) for axis in (0, 1)]
    angle = np.mod(np.arctan2(sums[1], sums[0]), 2 * np.pi)
    doubtful = (lengths == 0) | (angle < _LEVEL) | (angle > 2 * np.pi - _LEVEL)
    same_row = np.diff(columns.row_of) == 0
    doubtful[1:] |= same_row & (np.diff(angle) < _LEVEL)
    if city.symmetric:
        cross = delta[:-1, 0] * delta[1:, 1] - delta[1:, 0] * delta[:-1, 1]
        inside = np.diff(columns.route_of) == 0
        area = np.bincount(columns.route_of[1:][inside], cross[inside], minlength=routes)
        doubtful |= (lengths > 1) & (area < _LEVEL * city.scale**2)
    wrong = []
    starts = np.searchsorted(columns.row_of, np.arange(rows + 1))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    for row in np.unique(columns.row_of[doubtful]).tolist():
        stored = [
            tuple(nodes[bounds[k] : bounds[k + 1]].tolist()) for k in range(starts[row], starts[row + 1])
        ]
        if canonical(city, Solution.of(stored)).routes != tuple(stored):
            wrong.append(row)
    return wrong
