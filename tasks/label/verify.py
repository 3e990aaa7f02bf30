"""Proving a dataset from its bytes: every file on Ray, then what only all of them together can show.

Nothing is changed but the report, which is kept beside the dataset for `mcvrp label` to repair_dataset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city
from mcvrp.storage.labels.files import LabelFile
from mcvrp.storage.labels.overlap import dataset_keys, other_datasets
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.labels.shards import Fingerprint, ShardList
from mcvrp.storage.labels.verification import FileFault, VerificationReport, write_verification
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import refuse_earlier
from mcvrp.tasks.label.plan import missing_rows
from mcvrp.tasks.label.source import Source, stored_spec
from mcvrp.tasks.label.verify_file import misplaced, verify_file
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

_SHARED_NAMED = 10  # instances that two datasets share, named a size; more are counted


@dataclass(frozen=True)
class _Receipt:
    """What a worker found out about a file: small, however large the file."""

    path: str
    sha256: str
    footer: Footer | None
    rows: int
    faults: tuple[FileFault, ...]


@dataclass(frozen=True)
class _VerifyContext:
    """What every worker needs: where the dataset is, what it was made from, what it is compared with."""

    store: Store
    source: Source
    others: tuple[str, ...]


def verify_dataset(store: Store, dataset: str, *, workers: int | None = None) -> VerificationReport:
    """Prove every label of ``dataset`` and keep the report with it.

    Parameters
    ----------
    workers
        Cores to use, else all.

    Raises
    ------
    McvrpError
        If there is no such dataset, or the store has not its city.
    """
    files = store.list(layout.label_dir(dataset))
    if not files:
        raise McvrpError(f"there is no dataset {dataset!r} in {store.url('labels')}: run mcvrp label")
    refuse_earlier(store, layout.label_dir(dataset))
    try:
        spec, city_id = stored_spec(store, dataset)
    except StoreError:
        raise
    except McvrpError as error:
        report = _without_spec(store, dataset, str(error))
    else:
        source = Source(spec, find_city(store, city_id))
        with ray_session(workers) as cores:
            report = _verify(store, source, [path for path in files if _is_table(path, dataset)], cores)
    try:
        write_verification(store, report)
    except StoreError as error:
        unkept = f"the report is not kept, mcvrp label will not repair_dataset what it finds corrupt: {error}"
        report = replace(report, unchecked=(*report.unchecked, unkept))
    return report


def _is_table(path: str, dataset: str) -> bool:
    """Whether ``path`` is where a reader of the dataset would look for rows."""
    derived = (layout.shard_list(dataset), layout.label_statistics(dataset))
    below = path.removeprefix(layout.label_dir(dataset) + "/")
    return path.endswith(".parquet") and path not in derived and not below.startswith("_")


def _without_spec(store: Store, dataset: str, reason: str) -> VerificationReport:
    path = layout.label_spec(dataset)
    sha256 = hashlib.sha256(store.get(path)).hexdigest() if store.exists(path) else ""
    nothing = "without its spec nothing else of the dataset can be proved"
    fault = FileFault(path, sha256, reason)
    return VerificationReport(dataset, _now(), "", 0, 0, (fault,), (), unchecked=(nothing,))


def _verify(store: Store, source: Source, paths: Sequence[str], cores: int) -> VerificationReport:
    dataset, unchecked = source.spec.dataset, list[str]()
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
    receipts = list(_proved(context, paths, checksums, cores))
    faults = [fault for receipt in receipts for fault in receipt.faults]
    faults += [
        FileFault(path, "", f"it is listed in {layout.shard_list(dataset)} and not there")
        for path in sorted(checksums.keys() - set(paths))
    ]
    whole = [receipt for receipt in receipts if receipt.footer]
    faults += _overlaps(source, whole)
    for n, found in _compared(context, whole, cores):
        if isinstance(found, str):
            unchecked.append(f"n={n} could not be compared with datasets of other splits: {found}")
        else:
            faults += found
    return VerificationReport(
        dataset,
        _now(),
        _fingerprint(dataset, receipts),
        rows=sum(receipt.rows for receipt in receipts),
        files=len(receipts),
        faults=tuple(sorted(faults, key=lambda fault: (fault.path, -1 if fault.row is None else fault.row))),
        missing=tuple(_missing(source, whole)),
        quarantined=sum(len(receipt.footer.absent) for receipt in whole if receipt.footer),
        unchecked=tuple(unchecked),
    )


# A file --------------------------------------------------------------------------------------


def _proved(
    context: _VerifyContext, paths: Sequence[str], checksums: dict[str, str], cores: int
) -> Iterator[_Receipt]:
    jobs = [(path, checksums.get(path)) for path in paths]
    rows = faults = 0
    with Progress(f"verify {context.source.spec.dataset}", len(jobs), "files") as progress:
        for (path, _), found in windowed(_prove, jobs, cores, context):
            receipt = found if isinstance(found, _Receipt) else _unreadable(context.store, path, found)
            rows, faults = rows + receipt.rows, faults + len(receipt.faults)
            progress.advance(note=f"{rows:,} labels proved" + (f", {faults:,} faults" if faults else ""))
            yield receipt


def _prove(job: tuple[str, str | None], context: _VerifyContext) -> _Receipt:
    path, sha256 = job
    report = verify_file(context.store.get(path), path, context.source, sha256)
    return _Receipt(path, report.sha256, report.footer, report.rows, tuple(report.faults))


def _unreadable(store: Store, path: str, error: Exception) -> _Receipt:
    """Return the receipt of a file that killed whoever read it."""
    sha256 = hashlib.sha256(store.get(path)).hexdigest()
    what = f"whoever reads it dies ({type(error).__name__})"
    return _Receipt(path, sha256, None, 0, (FileFault(path, sha256, what),))


# All files -----------------------------------------------------------------------------------


def _by_row(receipts: Sequence[_Receipt], n: int) -> list[tuple[Footer, _Receipt]]:
    files = [(receipt.footer, receipt) for receipt in receipts if receipt.footer and receipt.footer.n == n]
    return sorted(files, key=lambda file: (file[0].row_start, file[1].path))


def _fingerprint(dataset: str, receipts: Sequence[_Receipt]) -> str:
    """Return the fingerprint of what was proved, "" where a file has no footer or another's name."""
    digest = Fingerprint()
    files = [LabelFile(receipt.path, receipt.footer) for receipt in receipts if receipt.footer]
    for n, of_size in groupby(sorted(files, key=lambda file: file.footer.n), lambda file: file.footer.n):
        digest.add(n, list(of_size))
    own = [
        file
        for file in files
        if (k := layout.shard_number(file.path)) is not None
        and file.path == layout.label_shard(dataset, file.footer.n, k)
    ]
    return digest.value if len(own) == len(receipts) else ""


def _overlaps(source: Source, receipts: Sequence[_Receipt]) -> Iterator[FileFault]:
    """Yield the files with rows that another has too: files in their places have none in common."""
    for stray in receipts:
        if stray.footer and any(misplaced(stray.path, stray.footer, source)):
            for footer, other in _by_row(receipts, stray.footer.n):
                first = max(footer.row_start, stray.footer.row_start)
                last = min(footer.row_stop, stray.footer.row_stop)
                if other is not stray and first < last:
                    what = f"its rows {first} to {last} of n={footer.n} are in {other.path} too"
                    yield FileFault(stray.path, stray.sha256, what)


def _missing(source: Source, receipts: Sequence[_Receipt]) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of rows that the spec asks for and no file has."""
    for n in source.spec.sizes:
        files = [LabelFile(receipt.path, footer) for footer, receipt in _by_row(receipts, n)]
        yield from ((n, start, stop) for start, stop in missing_rows(files, 0, source.spec.count))


def _compared(
    context: _VerifyContext, receipts: Sequence[_Receipt], cores: int
) -> Iterator[tuple[int, str | list[FileFault]]]:
    """Yield each size with the instances that a dataset of another split has too, or why not."""
    sizes = sorted({receipt.footer.n for receipt in receipts if receipt.footer})
    if not context.others:
        return
    name = f"verify {context.source.spec.dataset}, other splits"
    with Progress(name, len(sizes), "sizes") as progress:
        for n, found in windowed(_shared, sizes, cores, context):
            progress.advance()
            if isinstance(found, list):
                yield n, [_in_its_file(context, receipts, n, i, what) for i, what in found]
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
    context: _VerifyContext, receipts: Sequence[_Receipt], n: int, i: int, what: str
) -> FileFault:
    for footer, receipt in _by_row(receipts, n):
        if footer.row_start <= i < footer.row_stop:
            row = i - footer.row_start - sum(absent < i for absent in footer.absent)
            return FileFault(receipt.path, "", what, n, row, i)  # the bytes are right: nothing to repair
    return FileFault(layout.size_dir(context.source.spec.dataset, n), "", what, n, None, i)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
