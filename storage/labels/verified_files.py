"""Reports on single files that a verification keeps as it goes, for the one that resumes it after a kill."""

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

SAVE_SECONDS = 30.0  # between two writes: what a kill costs
_RESUMED_SECONDS = 86_400.0  # since its beginning, a verification is resumed; later bytes may have rotted
_CLOCK_SECONDS = 2.0  # two writes within one second may have the same time


@dataclass(frozen=True)
class VerifiedFile:
    """What was found in the file at ``path`` when it was listed with ``size`` and ``modified``.

    Parameters
    ----------
    expected
        The checksum that it was compared with, if there was one.
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
    decided_by: str  # by spec and city
    began: float
    files: tuple[VerifiedFile, ...]


@dataclass
class VerifiedFiles:
    """The files of a dataset that a verification has done: `open` finds those of one that was stopped."""

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
        """Return what was kept by a verification of the last day that came to no report; else nothing.

        ``decided_by`` names what a report depends on besides the file. To be called before files are listed.
        """
        now = store.now()
        new, path = cls(store, dataset, decided_by, now, now), layout.verification_progress(dataset)
        kept, report = store.stat(path), store.stat(layout.verification(dataset))
        if kept is None or (report and report.modified >= kept.modified):
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
        """Return what was found in ``file``, None where it has changed since."""
        known = self._files.get(file.path)
        same = known and (known.size, known.modified, known.expected) == (file.size, file.modified, expected)
        return known if same else None

    def add(self, verified: VerifiedFile) -> None:
        """Take in a file, and write all now and then; a store that cannot be written keeps nothing."""
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
