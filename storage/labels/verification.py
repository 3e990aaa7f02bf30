"""Report on a dataset, as the store keeps it: what verifying its bytes found wrong, file by file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.store.store import Store, StoreError


@dataclass(frozen=True)
class FileFault:
    """Something wrong with a file, or with one row of it.

    Parameters
    ----------
    path, sha256
        The file and its checksum when it was read; "" where there was nothing to read.
    what
        What is wrong, as a sentence without its subject.
    n, row, i
        The size, the row within the file counted from 0, and the instance (n, i), where it is a row.
    """

    path: str
    sha256: str
    what: str
    n: int | None = None
    row: int | None = None
    i: int | None = None

    def __str__(self) -> str:
        where = self.path if self.row is None else f"{self.path}, row {self.row}"
        instance = "" if self.i is None else f" (instance n={self.n}, i={self.i})"
        return f"{where}{instance}: {self.what}"


@dataclass(frozen=True)
class VerificationReport:
    """Findings of a verification.

    Parameters
    ----------
    dataset, verified_at
        Which dataset, and when (UTC, ISO 8601).
    fingerprint
        Hash of the city, instances and routes that its footers declare.
    rows, files
        Labels and files that were verified.
    faults
        Everything that is wrong.
    missing
        Rows that the spec asks for and no file has: size, first row, last row (excluded).
    quarantined
        How many of those no solver has solved so far.
    unchecked
        What could not be checked, a sentence each.
    """

    dataset: str
    verified_at: str
    fingerprint: str
    rows: int
    files: int
    faults: tuple[FileFault, ...]
    missing: tuple[tuple[int, int, int], ...]
    quarantined: int = 0
    unchecked: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True if nothing is wrong and nothing is missing."""
        return not self.faults and not self.missing

    @property
    def missing_rows(self) -> int:
        """The number of missing rows."""
        return sum(stop - start for _, start, stop in self.missing)


def write_verification(store: Store, report: VerificationReport) -> None:
    """Keep ``report`` with its dataset, in place of the last one."""
    store.put_json(layout.verification(report.dataset), asdict(report))


def read_verification(store: Store, dataset: str) -> VerificationReport | None:
    """Return the last report on ``dataset``, None when there is none that can be read."""
    path = layout.verification(dataset)
    if not store.exists(path):
        return None
    try:
        return read_document(store, path, VerificationReport, named="verification report", hint="remove it")
    except StoreError:
        raise
    except McvrpError:
        return None  # `mcvrp verify` makes it anew


def corrupt_files(store: Store, dataset: str) -> dict[str, str]:
    """Return path and checksum of every file in which the last report found a fault."""
    report = read_verification(store, dataset)
    if report is None:
        return {}
    return {fault.path: fault.sha256 for fault in report.faults if fault.sha256}


def clear_faults(store: Store, dataset: str, paths: Collection[str]) -> None:
    """Take the faults of the files at ``paths`` out of the last report: they are no longer there."""
    report = read_verification(store, dataset)
    if report is not None:
        kept = tuple(fault for fault in report.faults if fault.path not in paths)
        if kept != report.faults:
            write_verification(store, replace(report, faults=kept))
