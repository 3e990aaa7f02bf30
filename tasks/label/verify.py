"""Verification of a dataset from its bytes: every file on Ray, then what only all of them together show.

Nothing is changed but the report, which is kept beside the dataset for `mcvrp label` to repair it by.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.overlap import dataset_keys, other_datasets
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.labels.shards import Fingerprint, ShardList
from mcvrp.storage.labels.verification import FileFault, VerificationReport, write_verification
from mcvrp.storage.labels.verified_files import VerifiedFile, VerifiedFiles
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store, StoredFile
from mcvrp.tasks.label.plan import missing_rows
from mcvrp.tasks.label.spec import Source, stored_spec
from mcvrp.tasks.label.verify_file import FileReport, in_staging, misplaced, verify_file
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

_SHARED_NAMED = 10  # instances that two datasets share, named a size; more are counted


@dataclass(frozen=True)
class _VerifyContext:
    """Context of every worker: where the dataset is, what it was made from, what it is compared with."""

    store: Store
    source: Source
    others: tuple[str, ...]


def verify_dataset(store: Store, dataset: str, *, workers: int | None = None) -> VerificationReport:
    """Verify every label of ``dataset`` and keep the report with it.

    Stopped, the next call within a day resumes it; after a report everything is verified again.

    Parameters
    ----------
    workers
        Cores to use, else all.

    Raises
    ------
    McvrpError
        If there is no such dataset, or the store has not its city.
    """
    if not store.list(layout.label_dir(dataset)):
        raise McvrpError(f"there is no dataset {dataset!r} in {store.url('labels')}: run mcvrp label")
    try:
        spec, city_id = stored_spec(store, dataset)
    except StoreError:
        raise
    except McvrpError as error:
        report = _without_spec(store, dataset, str(error))
    else:
        source = Source(spec, find_city(store, city_id))
        with ray_session(workers) as cores:
            report = _verify(store, source, cores)
    try:
        write_verification(store, report)
        store.delete(layout.verification_progress(dataset))
    except StoreError as error:
        unkept = f"the report is not kept, mcvrp label will not repair what it finds corrupt: {error}"
        report = replace(report, unchecked=(*report.unchecked, unkept))
    return report


def _is_table(path: str, dataset: str) -> bool:
    """Return whether ``path`` is where a reader of the dataset, or the next run, would look for rows."""
    below = path.removeprefix(layout.label_dir(dataset) + "/")
    return path.endswith(".parquet") and (not below.startswith("_") or in_staging(path, dataset))


def _without_spec(store: Store, dataset: str, reason: str) -> VerificationReport:
    path = layout.label_spec(dataset)
    sha256 = hashlib.sha256(store.get(path)).hexdigest() if store.exists(path) else ""
    nothing = "without its spec nothing else of the dataset can be proved"
    fault = FileFault(path, sha256, reason)
    return VerificationReport(dataset, _now(), "", 0, 0, (fault,), (), unchecked=(nothing,))


def _verify(store: Store, source: Source, cores: int) -> VerificationReport:
    dataset, unchecked = source.spec.dataset, list[str]()
    verified = VerifiedFiles.open(store, dataset, _decided_by(source))
    tables = [file for file in store.files(layout.label_dir(dataset)) if _is_table(file.path, dataset)]
    if store.exists(layout.driver_lease(dataset)):
        unchecked.append("somebody is labelling it, or was stopped: what is missing may be on its way")
    try:
        checksums = {shard.path: shard.sha256 for shard in ShardList(store, dataset)}
    except StoreError:
        raise
    except McvrpError as error:
        checksums = {}
        unchecked.append(f"checksums could not be compared: {error}")
    others = other_datasets(store, source.city.city_id, source.spec.split)
    context = _VerifyContext(store, source, tuple(others))
    reports = list(_verified(context, tables, checksums, verified, cores))
    faults = [fault for report in reports for fault in report.faults]
    reports = [report for report in reports if not in_staging(report.path, dataset)]  # on their way: missing
    faults += [
        FileFault(path, "", f"it is listed in {layout.shard_list(dataset)} and not there")
        for path in sorted(checksums.keys() - {file.path for file in tables})
    ]
    whole = [report for report in reports if report.footer]
    faults += _overlaps(source, whole)
    for n, found in _compared(context, whole, cores):
        if isinstance(found, str):
            unchecked.append(f"n={n} could not be compared with datasets of other splits: {found}")
        else:
            faults += found
    return VerificationReport(
        dataset,
        _now(),
        _fingerprint(dataset, reports),
        rows=sum(report.rows for report in reports),
        files=len(reports),
        faults=tuple(sorted(faults, key=lambda fault: (fault.path, -1 if fault.row is None else fault.row))),
        missing=tuple(_missing(source, whole)),
        quarantined=sum(len(report.footer.absent) for report in whole if report.footer),
        unchecked=tuple(unchecked),
    )


def _decided_by(source: Source) -> str:
    """Return a hash of what the report on a file depends on besides its bytes."""
    spec = source.spec
    decides = {**spec.identity(source.city), "sizes": [spec.smallest, spec.largest], "count": spec.count}
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _verified(
    context: _VerifyContext,
    tables: Sequence[StoredFile],
    checksums: dict[str, str],
    verified: VerifiedFiles,
    cores: int,
) -> Iterator[FileReport]:
    """Yield the report on each file, without its rows; ``verified`` knows some, and keeps the others."""
    known = [found for file in tables if (found := verified.find(file, checksums.get(file.path)))]
    rows, faults = sum(file.rows for file in known), sum(len(file.faults) for file in known)
    yield from (FileReport(f.path, f.sha256, f.footer, list(f.faults), f.rows) for f in known)
    paths = {file.path for file in known}
    jobs = [(file, checksums.get(file.path)) for file in tables if file.path not in paths]
    label = f"verify {context.source.spec.dataset}"
    with Progress(label, len(tables), "files", done=len(known)) as progress:
        for (file, expected), found in windowed(_verify_one, jobs, cores, context, context.store):
            report = found if isinstance(found, FileReport) else _unreadable(context.store, file.path, found)
            rows, faults = rows + report.rows, faults + len(report.faults)
            if report is found:
                verified.add(_kept(file, expected, report))
            progress.advance(note=f"{rows:,} labels proved" + (f", {faults:,} faults" if faults else ""))
            yield report


def _kept(file: StoredFile, expected: str | None, report: FileReport) -> VerifiedFile:
    faults = tuple(report.faults)
    return VerifiedFile(
        file.path, file.size, file.modified, expected, report.sha256, report.footer, faults, report.rows
    )


def _verify_one(job: tuple[StoredFile, str | None], context: _VerifyContext) -> FileReport:
    file, sha256 = job
    if not context.store.exists(file.path):  # merged, or taken out, since it was listed
        return FileReport(file.path, "")
    report = verify_file(context.store.get(file.path), file.path, context.source, sha256)
    return replace(report, good=[])  # what goes back to the driver is small, however large the file


def _unreadable(store: Store, path: str, error: Exception) -> FileReport:
    """Return the report on a file that killed whoever read it."""
    sha256 = hashlib.sha256(store.get(path)).hexdigest()
    what = f"whoever reads it dies ({type(error).__name__})"
    return FileReport(path, sha256, faults=[FileFault(path, sha256, what)])


def _by_row(reports: Sequence[FileReport], n: int) -> list[tuple[Footer, FileReport]]:
    files = [(report.footer, report) for report in reports if report.footer and report.footer.n == n]
    return sorted(files, key=lambda file: (file[0].row_start, file[1].path))


def _fingerprint(dataset: str, reports: Sequence[FileReport]) -> str:
    """Return the fingerprint of what was proved, "" where a file has no footer or another's name."""
    digest = Fingerprint()
    files = [LabelFile(report.path, report.footer) for report in reports if report.footer]
    for n, of_size in groupby(sorted(files, key=lambda file: file.footer.n), lambda file: file.footer.n):
        digest.add(n, list(of_size))
    own = [
        file
        for file in files
        if (k := layout.shard_number(file.path)) is not None
        and file.path == layout.label_shard(dataset, file.footer.n, k)
    ]
    return digest.value if len(own) == len(reports) else ""


def _overlaps(source: Source, reports: Sequence[FileReport]) -> Iterator[FileFault]:
    """Yield the files with rows that another has too: files in their places have none in common."""
    for stray in reports:
        if stray.footer and any(misplaced(stray.path, stray.footer, source)):
            for footer, other in _by_row(reports, stray.footer.n):
                first = max(footer.row_start, stray.footer.row_start)
                last = min(footer.row_stop, stray.footer.row_stop)
                if other is not stray and first < last:
                    what = f"its rows {first} to {last} of n={footer.n} are in {other.path} too"
                    yield FileFault(stray.path, stray.sha256, what)


def _missing(source: Source, reports: Sequence[FileReport]) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of rows that the spec asks for and no file has."""
    for n in source.spec.sizes:
        files = [LabelFile(report.path, footer) for footer, report in _by_row(reports, n)]
        yield from ((n, start, stop) for start, stop in missing_rows(files, 0, source.spec.count))


def _compared(
    context: _VerifyContext, reports: Sequence[FileReport], cores: int
) -> Iterator[tuple[int, str | list[FileFault]]]:
    """Yield each size with the instances that a dataset of another split has too, or why not."""
    sizes = sorted({report.footer.n for report in reports if report.footer})
    if not context.others:
        return
    name = f"verify {context.source.spec.dataset}, other splits"
    with Progress(name, len(sizes), "sizes") as progress:
        for n, found in windowed(_shared, sizes, cores, context, context.store):
            progress.advance()
            if isinstance(found, list):
                yield n, [_in_its_file(context, reports, n, i, what) for i, what in found]
            else:
                yield n, found if isinstance(found, str) else reason(found)


def _shared(n: int, context: _VerifyContext) -> list[tuple[int, str]] | str:
    """Return the instances of size ``n`` that another dataset has too, and where."""
    found: list[tuple[int, str]] = []
    try:
        ours = dataset_keys(context.store, context.source.spec.dataset, n)
        for other in context.others:
            here, there = ours.shared(dataset_keys(context.store, other, n))
            pairs = sorted(zip(here.tolist(), there.tolist(), strict=True))
            found += [(i, f"it is instance (n={n}, i={j}) of dataset {other!r}") for i, j in pairs]
    except StoreError:
        raise
    except McvrpError as error:
        return str(error)
    if len(found) > _SHARED_NAMED:
        more = f"and {len(found) - _SHARED_NAMED:,} more instances of n={n} are in another split"
        found = [*found[:_SHARED_NAMED], (found[_SHARED_NAMED][0], more)]
    return found


def _in_its_file(
    context: _VerifyContext, reports: Sequence[FileReport], n: int, i: int, what: str
) -> FileFault:
    for footer, report in _by_row(reports, n):
        if (row := footer.row_of(i)) is not None:
            return FileFault(report.path, "", what, n, row, i)  # the bytes are right: nothing to repair
    return FileFault(layout.size_dir(context.source.spec.dataset, n), "", what, n, None, i)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
