"""Progress of a verification: reports on single files, for the run that resumes it after a kill."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.labels.verification import FileFault
from mcvrp.storage.store.errors import StoreSilent
from mcvrp.storage.store.store import Store, StoredFile, StoreError

SAVE_SECONDS = 30.0  # between two writes: the most that a kill costs
_RESUMED_SECONDS = 86_400.0  # age up to which a verification is resumed: bytes on disk decay
_CLOCK_SECONDS = 2.0  # resolution of the store's times: two writes within it may have the same time


@dataclass(frozen=True)
class VerifiedFile:
    """Report on the file at ``path``, listed with ``size`` and ``modified``.

    Parameters
    ----------
    expected
        Checksum that it was compared with, if there was one.
    sha256, footer, faults, rows
        As in the report on the file.
    """

    path: str
    size: int
    modified: float
    expected: str | None
    sha256: str
    footer: Footer | None
    faults: tuple[FileFault, ...]
    rows: int


@dataclass(frozen=True)
class _Document:
    decided_by: str  # hash of spec and city
    began: float
    files: tuple[VerifiedFile, ...]


@dataclass
class VerifiedFiles:
    """Verified files of a dataset; `open` returns those of an interrupted verification."""

    store: Store
    dataset: str
    decided_by: str
    began: float
    listed: float
    _files: dict[str, VerifiedFile] = field(default_factory=dict)
    _saved: float = field(default_factory=time.monotonic)
    _writable: bool = True

    @classmethod
    def open(cls, store: Store, dataset: str, decided_by: str) -> VerifiedFiles:
        """Return the progress of a verification of the last day that has no report, otherwise an empty one.

        ``decided_by`` is a hash of everything else that a report depends on. Call it before listing files.
        """
        now = store.now()
        new, path = cls(store, dataset, decided_by, now, now), layout.verification_progress(dataset)
        progress, report = store.stat(path), store.stat(layout.verification(dataset))
        if progress is None or (report and report.modified >= progress.modified):
            return new
        try:
            document = read_document(
                store, path, _Document, named="progress of a verification", hint="remove it"
            )
        except StoreError:
            raise
        except McvrpError:
            return new
        if document.decided_by == decided_by and 0 <= now - document.began < _RESUMED_SECONDS:
            new.began = document.began
            new._files = {file.path: file for file in document.files}
        return new

    def find(self, file: StoredFile, expected: str | None) -> VerifiedFile | None:
        """Return the report on ``file``, None if the file has changed since."""
        old = self._files.get(file.path)
        same = old and (old.size, old.modified, old.expected) == (file.size, file.modified, expected)
        return old if same else None

    def add(self, verified: VerifiedFile) -> None:
        """Add a file and write all periodically; in a read-only store nothing is written."""
        # A file as young as the listing may have been replaced within the same tick of the clock.
        if self.listed - verified.modified < _CLOCK_SECONDS:
            return
        self._files[verified.path] = verified
        if self._writable and time.monotonic() - self._saved >= SAVE_SECONDS:
            document = _Document(self.decided_by, self.began, tuple(self._files.values()))
            try:
                self.store.put_json(layout.verification_progress(self.dataset), asdict(document))
            except StoreSilent:
                raise
            except StoreError:
                self._writable = False
            self._saved = time.monotonic()
