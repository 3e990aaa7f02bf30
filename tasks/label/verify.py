"""Verification of a dataset from its bytes: every row of every file on Ray, then which rows are missing.

Changes nothing, unless bad files are to be deleted: `mcvrp label` makes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city
from mcvrp.storage.labels.arrays import LabelArrays, content_hash
from mcvrp.storage.labels.checks import row_faults
from mcvrp.storage.labels.dataset import OTHER_ROWS, Dataset, RowFile, list_files, without_merged
from mcvrp.storage.labels.label_files import hint, parse_footer, parse_table
from mcvrp.storage.labels.schema import Footer, OtherSchema
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.plan import gaps
from mcvrp.tasks.label.spec import LabelSpec, Source, stored_spec
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session, windowed
from mcvrp.tasks.support.text import counted

_MOST_CHARACTERS = 160  # of a message of a library


@dataclass(frozen=True)
class FileFault:
    """A bad file: ``what`` is wrong with it, as a sentence without its subject."""

    path: str
    what: str
    misplaced: bool = False  # whole, but of other rows, another dataset or version: never removed

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(frozen=True)
class VerificationReport:
    """Findings on a dataset with ``rows`` labels in good ``files``."""

    dataset: str
    rows: int
    files: int
    faults: tuple[FileFault, ...] = ()
    # rows of the spec in no good file: size, first, last (excluded)
    missing: tuple[tuple[int, int, int], ...] = ()
    absent: int = 0  # rows in good files without a label
    deleted: bool = False  # the bad files were removed

    @property
    def good(self) -> bool:
        return not (self.faults or self.missing or self.absent)

    @property
    def missing_rows(self) -> int:
        return sum(stop - start for _, start, stop in self.missing)


def verify_dataset(store: Store, dataset: str, *, delete: bool = False) -> VerificationReport:
    """Verify every label of ``dataset``, and ``delete`` the files that are bad, or only report them.

    Raises McvrpError if there are no labels, the spec of the dataset is missing or corrupt, or its city is
    not in the store; StoreError if a file cannot be read, which may be good.
    """
    Dataset.open(store, dataset)
    spec, city_id = stored_spec(store, dataset)
    source = Source(spec, find_city(store, city_id))
    with ray_session() as cores:
        return _verify(store, source, cores, delete=delete)


def _verify(store: Store, source: Source, cores: int, *, delete: bool) -> VerificationReport:
    files = list_files(store, source.spec.dataset)
    results = dict(_verified(store, source, files, cores))
    faults = [result for result in results.values() if isinstance(result, FileFault)]
    bad = {fault.path for fault in faults}
    good = {n: without_merged([f for f in files[n] if f.path not in bad]) for n in files}
    for before, file in (pair for n in good for pair in pairwise(good[n])):
        if file.start < before.stop:  # of two drivers at once: `mcvrp label` fills the gap
            faults.append(FileFault(file.path, f"has rows of {before.path}, too"))
    if delete:
        store.delete_files(sorted(fault.path for fault in faults if not fault.misplaced))
    kept = [results[file.path] for n in good for file in good[n]]
    footers = [result for result in kept if isinstance(result, Footer)]
    return VerificationReport(
        source.spec.dataset,
        rows=sum(footer.rows for footer in footers),
        files=len(footers),
        faults=tuple(sorted(faults, key=lambda fault: fault.path)),
        missing=tuple(_missing(source.spec, good)),
        absent=sum(len(footer.absent) for footer in footers),
        deleted=delete and any(not fault.misplaced for fault in faults),
    )


def _missing(spec: LabelSpec, files: dict[int, list[RowFile]]) -> Iterator[tuple[int, int, int]]:
    yield from ((n, *gap) for n in spec.sizes for gap in gaps(files.get(n, []), 0, spec.count))


def _verified(
    store: Store, source: Source, files: dict[int, list[RowFile]], cores: int
) -> Iterator[tuple[str, Footer | FileFault | None]]:
    """Yield each path with the result of `verify_file`, None if the file is gone."""
    rows = bad = 0
    paths = [file.path for n in files for file in files[n]]
    with Progress(f"verify {source.spec.dataset}", len(paths), "files") as progress:
        for path, result in windowed(_verify_one, paths, cores, (store, source)):
            if isinstance(result, Exception):
                result = FileFault(path, f"crashes its readers ({type(result).__name__})")
            rows += result.rows if isinstance(result, Footer) else 0
            bad += isinstance(result, FileFault) and not result.misplaced
            faulty = f", {counted(bad, 'bad file')}" if bad else ""
            progress.advance(note=f"{counted(rows, 'label')} verified{faulty}")
            yield path, result


def _verify_one(path: str, shared: tuple[Store, Source]) -> Footer | FileFault | None:
    store, source = shared
    data = store.find(path)
    return None if data is None else verify_file(data, path, source)


def verify_file(data: bytes, path: str, source: Source) -> Footer | FileFault:
    """Return the footer of the label file at ``path`` with bytes ``data``, or what is wrong.

    Whatever the bytes are, nothing is raised.
    """
    try:
        footer, table = parse_footer(data, "it"), parse_table(data, "it")
        if other := _misplaced(path, footer, source):
            return FileFault(path, other, misplaced=True)
        fault = _fault(footer, table, source)
    except OtherSchema as error:
        return FileFault(path, str(error).removeprefix("it "), misplaced=True)
    except McvrpError as error:
        fault = str(error).removeprefix("it ").removesuffix(f": {hint('it')}")[:_MOST_CHARACTERS]
    except Exception as error:  # corrupt bytes raise errors of any kind
        fault = f"cannot be read ({reason(error)[:_MOST_CHARACTERS]})"
    return FileFault(path, fault) if fault else footer


def _fault(footer: Footer, table: pa.Table, source: Source) -> str:
    """Return what is wrong with the first bad row, "" if all are good."""
    labels = LabelArrays.of(table, footer.n)
    index = np.arange(footer.row_start, footer.row_stop)
    expected = np.setdiff1d(index, np.array([*footer.absent], dtype=np.int64))
    if not np.array_equal(labels.index, expected):
        return (
            f"has not the rows that its footer declares, {footer.row_start} to {footer.row_stop} (excluded)"
        )
    for fault in row_faults(source.city, labels):
        return f"has {fault.what}, at i={fault.i} of n={footer.n}"
    for row, i in enumerate(labels.index.tolist()):
        instance = source.stream(footer.n, i)
        same = np.array_equal(instance.ids, labels.ids[row]) and instance.capacity == labels.capacities[row]
        if not same or not np.array_equal(instance.demands, labels.demands[row]):
            return f"has another instance than that of the spec, at i={i} of n={footer.n}"
    return "" if content_hash(labels) == footer.content else "has other rows than its footer declares"


def _misplaced(path: str, footer: Footer, source: Source) -> str:
    """Return why a file with ``footer`` does not belong at ``path``, "" if it does."""
    spec, recipe = source.spec, source.recipe
    if footer.city_id != source.city.city_id:
        return f"has labels of city {footer.city_id}, the dataset is of city {source.city.city_id}"
    if footer.spec_hash != recipe.spec_hash:
        return f"was made from spec {footer.spec_hash}, the dataset from {recipe.spec_hash}"
    if path != layout.label_file(spec.dataset, footer.n, footer.row_start, footer.row_stop):
        return OTHER_ROWS
    if footer.n not in spec.sizes or footer.row_stop > spec.count:
        return (
            f"has rows {footer.row_start} to {footer.row_stop} (excluded) of n={footer.n}, the spec "
            f"n={spec.smallest} to {spec.largest}, {spec.count} rows each"
        )
    return ""
