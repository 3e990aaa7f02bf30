"""Verification of a dataset from its bytes: every file on Ray, then the properties of all files together.

Changes nothing except the report, which is stored with the dataset and read by `mcvrp label` for repairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from mcvrp.model.errors import McvrpError, alternatives, reason
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.overlap import dataset_keys, other_datasets
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.labels.shards import Fingerprint, Shard, ShardList
from mcvrp.storage.labels.verification import FileFault, VerificationReport, write_verification
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.plan import missing_rows
from mcvrp.tasks.label.spec import Source, of_trial, stored_spec
from mcvrp.tasks.label.verify_file import FileReport, in_staging, verify_file
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

_MOST_SHARED = 10  # instances per size that two datasets share; more are counted


@dataclass(frozen=True)
class _VerifyContext:
    """Context of every worker: the store, the spec and city, and the datasets of other splits."""

    store: Store
    source: Source
    others: tuple[str, ...]


def verify_dataset(store: Store, dataset: str, *, workers: int | None = None) -> VerificationReport:
    """Verify every label of ``dataset`` and store the report with it.

    ``workers`` is the number of cores (default: all). Raises McvrpError if there is no such dataset, a night
    or round made it, or its city is not in the store.
    """
    if not store.list(layout.label_dir(dataset)):
        others = alternatives(dataset, store.folders("labels"))
        where = store.url("labels")
        raise McvrpError(f"there is no dataset {dataset!r} in {where}{others}: run mcvrp label")
    if of_trial(store, dataset):
        raise McvrpError(
            f"dataset {dataset!r} belongs to a night or round and has no spec to verify it by: verify the "
            f"datasets that it was made from, as mcvrp inspect {layout.label_dir(dataset)} shows them"
        )
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
    except StoreError as error:
        unsaved = f"the report could not be stored, mcvrp label will not repair corrupt files: {error}"
        report = replace(report, unchecked=(*report.unchecked, unsaved))
    return report


def _is_table(path: str, dataset: str) -> bool:
    """Return whether a reader of the dataset, or the next run, would read rows from ``path``."""
    below = path.removeprefix(layout.label_dir(dataset) + "/")
    tabular = path.endswith(".parquet") and path != layout.label_city(dataset)
    return tabular and (not below.startswith("_") or in_staging(path, dataset))


def _without_spec(store: Store, dataset: str, reason: str) -> VerificationReport:
    path = layout.label_spec(dataset)
    data = store.find(path)
    fault = FileFault(path, "" if data is None else hashlib.sha256(data).hexdigest(), reason)
    unchecked = ("without its spec nothing else of the dataset can be verified",)
    return VerificationReport(dataset, _now(), "", 0, 0, (fault,), (), unchecked=unchecked)


def _verify(store: Store, source: Source, cores: int) -> VerificationReport:
    dataset, unchecked = source.spec.dataset, list[str]()
    tables = [path for path in store.list(layout.label_dir(dataset)) if _is_table(path, dataset)]
    if owner := active_owner(store, layout.driver_lease(dataset)):
        unchecked.append(f"it is being labelled by {owner}, or was: missing labels may still be made")
    listed = _listed_shards(store, dataset, unchecked)
    others = other_datasets(store, source.city.city_id, source.spec.split)
    context = _VerifyContext(store, source, tuple(others))
    reports = list(_verified(context, tables, listed, cores))
    faults = [fault for report in reports for fault in report.faults]
    # Staged rows are verified, as the next run merges them, but they count as missing until then.
    reports = [report for report in reports if not in_staging(report.path, dataset)]
    faults += [
        FileFault(path, "", f"it is listed in {layout.shard_list(dataset)} but does not exist")
        for path in sorted(listed.keys() - set(tables))
    ]
    # The other files have a fault that hides their rows: whatever they have counts as missing.
    whole = [report for report in reports if report.footer]
    for n, result in _compared(context, whole, cores):
        if isinstance(result, str):
            unchecked.append(f"n={n} could not be compared with datasets of other splits: {result}")
        else:
            faults += result
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


def _listed_shards(store: Store, dataset: str, unchecked: list[str]) -> dict[str, Shard]:
    """Return the list of shards by path; without a list, add that to ``unchecked``."""
    try:
        return {shard.path: shard for shard in ShardList(store, dataset)}
    except StoreError:
        raise
    except McvrpError as error:
        unchecked.append(f"checksums could not be compared: {error}")
        return {}


def _verified(
    context: _VerifyContext, tables: Sequence[str], listed: dict[str, Shard], cores: int
) -> Iterator[FileReport]:
    """Yield the report on each file, without its rows."""
    rows = faults = 0
    jobs = [(path, listed.get(path)) for path in tables]
    with Progress(f"verify {context.source.spec.dataset}", len(tables), "files") as progress:
        for (path, _), result in windowed(_verify_one, jobs, cores, context, context.store):
            report = result if isinstance(result, FileReport) else _unreadable(context.store, path, result)
            rows, faults = rows + report.rows, faults + len(report.faults)
            progress.advance(note=f"{rows:,} labels verified" + (f", {faults:,} faults" if faults else ""))
            yield report


def _verify_one(job: tuple[str, Shard | None], context: _VerifyContext) -> FileReport:
    path, listed = job
    data = context.store.find(path)
    if data is None:  # merged, or moved away, since it was listed
        return FileReport(path, "")
    report = verify_file(data, path, context.source, listed)
    return replace(report, good=[])  # the driver would hold the rows of the whole dataset


def _unreadable(store: Store, path: str, error: Exception) -> FileReport:
    """Return the report on a file that crashed its reader."""
    sha256 = hashlib.sha256(store.get(path)).hexdigest()
    what = f"its readers crash ({type(error).__name__})"
    return FileReport(path, sha256, faults=[FileFault(path, sha256, what)])


def _by_row(reports: Sequence[FileReport], n: int) -> list[tuple[Footer, FileReport]]:
    files = [(report.footer, report) for report in reports if report.footer and report.footer.n == n]
    return sorted(files, key=lambda file: (file[0].row_start, file[1].path))


def _fingerprint(dataset: str, reports: Sequence[FileReport]) -> str:
    """Return the fingerprint of the verified files, "" if one has no footer or is misplaced."""
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
    # A fingerprint over misplaced files would be one that no reader of the dataset can compute.
    return digest.value if len(own) == len(reports) else ""


def _missing(source: Source, reports: Sequence[FileReport]) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of rows of the spec that are in no file."""
    for n in source.spec.sizes:
        files = [LabelFile(report.path, footer) for footer, report in _by_row(reports, n)]
        yield from ((n, start, stop) for start, stop in missing_rows(files, 0, source.spec.count))


def _compared(
    context: _VerifyContext, reports: Sequence[FileReport], cores: int
) -> Iterator[tuple[int, str | list[FileFault]]]:
    """Yield each size with the instances that a dataset of another split has, too, or why it is unknown."""
    sizes = sorted({report.footer.n for report in reports if report.footer})
    if not context.others:
        return
    name = f"verify {context.source.spec.dataset}, other splits"
    with Progress(name, len(sizes), "sizes") as progress:
        for n, result in windowed(_shared, sizes, cores, context, context.store):
            progress.advance()
            if isinstance(result, list):
                yield n, [_in_its_file(context, reports, n, i, what) for i, what in result]
            else:
                yield n, result if isinstance(result, str) else reason(result)


def _shared(n: int, context: _VerifyContext) -> list[tuple[int, str]] | str:
    """Return the instances of size ``n`` that another dataset has, too, and where."""
    shared: list[tuple[int, str]] = []
    try:
        ours = dataset_keys(context.store, context.source.spec.dataset, n)
        for other in context.others:
            here, elsewhere = ours.shared(dataset_keys(context.store, other, n))
            pairs = sorted(zip(here.tolist(), elsewhere.tolist(), strict=True))
            shared += [(i, f"it is instance (n={n}, i={j}) of dataset {other!r}") for i, j in pairs]
    except StoreError:
        raise
    except McvrpError as error:  # a corrupt file here has its own fault: the other sizes are still compared
        return str(error)
    if len(shared) > _MOST_SHARED:
        more = f"and {len(shared) - _MOST_SHARED:,} more instances of n={n} are in another split"
        shared = [*shared[:_MOST_SHARED], (shared[_MOST_SHARED][0], more)]
    return shared


def _in_its_file(
    context: _VerifyContext, reports: Sequence[FileReport], n: int, i: int, what: str
) -> FileFault:
    for footer, report in _by_row(reports, n):
        if (row := footer.row_of(i)) is not None:
            # without checksum: the bytes are good, nothing is to be repaired
            return FileFault(report.path, "", what, n, row, i)
    return FileFault(layout.size_dir(context.source.spec.dataset, n), "", what, n, None, i)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
