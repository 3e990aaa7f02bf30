"""Garbage collection: old artifacts to which no alias, latest version, running lease or report refers.

These are versions of models, and labels and runs of nights; what users named is kept. Documents
are removed first, so that an interrupted removal leaves nothing that looks complete, and the next call ends
it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcvrp.storage import layout
from mcvrp.storage.models.models import model_card
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.provenance import provenance_in
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store, StoredFile
from mcvrp.tasks.gc.spec import RetentionSpec as RetentionSpec

_DAY = 86_400.0
_OF_NIGHTS = ("labels", "training")  # top folders


@dataclass(frozen=True)
class Candidate:
    """An unreferenced file or folder, its size, and the reason for its removal."""

    path: str
    files: int
    bytes: int
    why: str


def clean(store: Store, policy: RetentionSpec, *, delete: bool, now: float | None = None) -> list[Candidate]:
    """Return what ``policy`` does not keep in ``store``; with ``delete``, what was removed of it.

    An interrupted call can be repeated. ``now`` replaces the clock in tests. McvrpError before any
    removal if a document that may refer to something is corrupt; StoreError if the store does not answer.
    """
    work = _Cleaning(store, policy, time.time() if now is None else now)
    return [candidate for candidate in [*work.candidates()] if not delete or work.remove(candidate.path)]


class _Cleaning:
    """The files of ``store`` at the time ``now``, and the rules."""

    def __init__(self, store: Store, policy: RetentionSpec, now: float) -> None:
        self.store, self.policy, self.now = store, policy, now
        listed = (f for f in store.files("", hidden=True) if f"/{layout.LEASE}/" not in f.path)
        self.files = {file.path: file for file in listed}
        self.inside = defaultdict[str, list[StoredFile]](list)  # files of each folder
        for path, file in self.files.items():
            parts = path.split("/")
            for depth in range(2, len(parts)):
                self.inside["/".join(parts[:depth])].append(file)

    def candidates(self) -> Iterator[Candidate]:
        """Yield what no alias, latest version, running lease or report refers to."""
        needed = set[str]()
        for name in self._names("benchmarks"):
            needed |= self._parents(f"{layout.benchmark_dir(name)}/summary.json")
        for name in self._names("models"):
            folders = map(layout.version_of, self._names(layout.models_dir(name)))
            numbers = sorted(number for number in folders if number is not None)
            known = [n for n in numbers if layout.model_card(name, n) in self.files]
            # the last number, if incomplete, is completed by the next publisher
            kept = {*_aliased(self.store, name), *known[-self.policy.keep_models :], *numbers[-1:]}
            for number, path in ((n, layout.model_dir(name, n)) for n in numbers):
                card = model_card(self.store, name, number) if number in known else None
                if number not in kept and path not in needed and self._is_old(self.inside[path]):
                    why = "no alias or report refers to it" if card else "half-written"
                    yield self._candidate(path, why)
                elif card:
                    needed |= {f"training/{card.run}", f"labels/{card.dataset}"}
                    needed |= self._parents(f"labels/{card.dataset}/manifest.json")
        for path in (f"{top}/{name}" for top in _OF_NIGHTS for name in self._names(top)):
            unneeded = layout.NIGHT_NAME.fullmatch(path.partition("/")[2]) and path not in needed
            if unneeded and self._is_old(self.inside[path]) and not self._is_busy(path):
                yield self._candidate(path, "no version that is kept was made from it")

    def remove(self, path: str) -> bool:
        """Remove ``path``, unless a process has begun to use it; return whether it was removed."""
        parts = path.split("/")
        if parts[0] == "models" and len(parts) == 3 and (version := layout.version_of(path)):
            return self._remove_version(parts[1], version)
        if parts[0] in _OF_NIGHTS and len(parts) == 2 and self._is_busy(path):
            return False
        self.store.delete_files([f.path for f in self.inside[path] if f.path.endswith(".json")])
        self.store.delete(path)
        return True

    def _remove_version(self, name: str, version: int) -> bool:
        path = layout.model_card(name, version)
        card = self.store.find(path)
        # A promotion looks for the card after it has moved the alias: at least one of the two sees the other.
        self.store.delete(path)
        if version in _aliased(self.store, name):
            if card is not None:
                self.store.put(path, card)
            return False
        self.store.delete(layout.model_dir(name, version))
        return True

    def _candidate(self, path: str, why: str) -> Candidate:
        files = self.inside[path]
        return Candidate(path, len(files), sum(file.size for file in files), why)

    def _is_old(self, files: Sequence[StoredFile]) -> bool:
        return max(f.modified for f in files) < self.now - self.policy.keep_days * _DAY

    def _names(self, folder: str) -> list[str]:
        below = (path.removeprefix(f"{folder}/") for path in self.inside if path.startswith(f"{folder}/"))
        return [name for name in below if re.fullmatch(layout.NAME_PATTERN, name)]

    def _parents(self, document: str) -> set[str]:
        provenance = provenance_in(self.store.get_json(document)) if document in self.files else None
        return {parent.path for parent in provenance.parents} if provenance else set()

    def _is_busy(self, path: str) -> bool:
        """Return whether a process holds the lease of the run or dataset, or may resume its night."""
        leases = [f"{path}/{layout.LEASE}", *map(layout.retraining_lease, self._names("models"))]
        return any(active_owner(self.store, lease) for lease in leases)


def _aliased(store: Store, name: str) -> set[int | None]:
    """Return the champion, and the version that a rollback would restore."""
    champion = pointer(store, name, "champion")
    before = (v for v in champion.before if store.exists(layout.model_card(name, v)))
    return {champion.version, next(before, None)}
