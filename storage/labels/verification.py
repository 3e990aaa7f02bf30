"""Verification report of a dataset, as stored: the faults of its files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.store.store import Store


@dataclass(frozen=True)
class FileFault:
    """Fault of a file, or of one of its rows."""

    path: str
    sha256: str  # of the file when it was read, "" if it was not read
    what: str  # as a sentence without its subject
    n: int | None = None  # fault of a row: its size,
    row: int | None = None  # its row within the file, counted from 0,
    i: int | None = None  # and index of instance (n, i)

    def __str__(self) -> str:
        where = self.path if self.row is None else f"{self.path}, row {self.row}"
        instance = "" if self.i is None else f" (instance n={self.n}, i={self.i})"
        return f"{where}{instance}: {self.what}"


@dataclass(frozen=True)
class VerificationReport:
    dataset: str
    verified_at: str  # time (UTC, ISO 8601)
    fingerprint: str  # of the city, instances and routes that the footers declare
    rows: int  # number of verified labels
    files: int
    faults: tuple[FileFault, ...]
    missing: tuple[tuple[int, int, int], ...]  # rows of the spec in no file: size, first, last (excluded)
    quarantined: int = 0  # number of missing rows that no solver has solved so far
    unchecked: tuple[str, ...] = ()  # checks that could not be made, one sentence each

    @property
    def good(self) -> bool:
        return not self.faults and not self.missing

    @property
    def missing_rows(self) -> int:
        return sum(stop - start for _, start, stop in self.missing)


def write_verification(store: Store, report: VerificationReport) -> None:
    """Store ``report`` with its dataset; replaces the last one."""
    store.put_json(layout.verification(report.dataset), asdict(report))


def read_verification(store: Store, dataset: str) -> VerificationReport | None:
    """Return the last report on ``dataset``, None if there is none, or it is corrupt."""
    path = layout.verification(dataset)
    if (data := store.find(path)) is None:
        return None
    where, named = store.url(path), "verification report"
    try:
        return as_document(data, VerificationReport, where, named=named, hint="remove it")
    except McvrpError:
        return None  # `mcvrp verify` replaces it


def corrupt_files(store: Store, dataset: str) -> dict[str, str]:
    """Return the checksum by path of every file with a fault in the last report."""
    report = read_verification(store, dataset)
    if report is None:
        return {}
    return {fault.path: fault.sha256 for fault in report.faults if fault.sha256}


def clear_faults(store: Store, dataset: str, paths: Collection[str]) -> None:
    """Remove the faults of the files at ``paths`` from the last report: the files were moved away."""
    report = read_verification(store, dataset)
    if report is not None:
        kept = tuple(fault for fault in report.faults if fault.path not in paths)
        if kept != report.faults:
            write_verification(store, replace(report, faults=kept))
