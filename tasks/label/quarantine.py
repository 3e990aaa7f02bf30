"""Quarantine of the instances of a dataset that no solver has solved so far; each run retries them."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, field

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.work import Failure, Unit

logger = logging.getLogger(__name__)

RowPlace = tuple[int, int]  # (n, i)
_SAVE_SECONDS = 10.0  # between two writes: the list may grow quickly


@dataclass(frozen=True, kw_only=True)
class FailedInstance(Failure):
    """Instance (n, i) without a label, and its last failure; ``attempts`` counts those of all runs."""

    n: int
    when: str

    def __str__(self) -> str:
        return f"(n={self.n}, i={self.i}): {self.reason}"


@dataclass(frozen=True)
class FailedInstances:
    """All failed instances, as a document of the store."""

    instances: tuple[FailedInstance, ...]


@dataclass
class Quarantine:
    """The failed instances in the memory of the driver, which is their only writer."""

    store: Store
    dataset: str
    entries: dict[RowPlace, FailedInstance] = field(default_factory=dict)
    _changed: bool = False
    _saved: float = 0.0

    @classmethod
    def load(cls, store: Store, dataset: str) -> Quarantine:
        """Return the stored list; a corrupt list counts as empty, as the shards declare their absent rows."""
        quarantine, path = cls(store, dataset), layout.quarantine(dataset)
        if (data := store.find(path)) is not None:
            named, hint = "quarantine", "remove it"
            try:
                document = as_document(data, FailedInstances, store.url(path), named=named, hint=hint)
                quarantine.entries = {(entry.n, entry.i): entry for entry in document.instances}
            except McvrpError:
                quarantine._changed = True  # replace the corrupt file
        return quarantine

    def rows(self, n: int) -> frozenset[int]:
        """Return the i of the failed instances of size ``n``."""
        return frozenset(i for size, i in self.entries if size == n)

    def seeds(self, unit: Unit) -> dict[int, int]:
        """Return the next seed, by i, of the instances of ``unit`` that stay without a solution."""
        return {
            i: entry.seed + 1
            for (n, i), entry in self.entries.items()
            # A crash is retried with the same seed: its cause may have been external.
            if n == unit.n and unit.start <= i < unit.stop and not entry.crashed
        }

    def note(self, unit: Unit, failures: Collection[Failure]) -> None:
        """Add the ``failures`` of ``unit`` and remove the instances that it has solved."""
        failed = {(unit.n, failure.i): failure for failure in failures}
        for n, i in [*self.entries]:
            if n == unit.n and unit.start <= i < unit.stop and (n, i) not in failed:
                del self.entries[n, i]
                self._changed = True
        before, when = dict(self.entries), time.strftime("%Y-%m-%d %H:%M:%S %z")
        for key, failure in failed.items():
            attempts = failure.attempts + (before[key].attempts if key in before else 0)
            fields = {**asdict(failure), "attempts": attempts}
            self.entries[key] = FailedInstance(n=unit.n, **fields, when=when)
            self._changed = True
        if new := [self.entries[key] for key in failed if key not in before]:
            logger.warning("%d instances of n=%d were quarantined, the first %s", len(new), unit.n, new[0])
        # Not after each unit: with many failures, writing the growing list would take quadratic time.
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def within(self, spec: LabelSpec) -> list[FailedInstance]:
        """Return the failed instances that are part of ``spec``, by size and index."""
        return [e for (n, i), e in sorted(self.entries.items()) if n in spec.sizes and i < spec.count]

    def drop_solved(self, spec: LabelSpec, missing: Collection[RowPlace]) -> None:
        """Remove the instances that are part of ``spec`` and not ``missing``."""
        for entry in self.within(spec):
            if (entry.n, entry.i) not in missing:
                del self.entries[entry.n, entry.i]
                self._changed = True

    def save(self) -> None:
        """Write the list if it has changed."""
        if not self._changed:
            return
        path = layout.quarantine(self.dataset)
        if self.entries:  # sorted, so that equal runs write equal bytes
            entries = FailedInstances(tuple(entry for _, entry in sorted(self.entries.items())))
            self.store.put_json(path, asdict(entries))
        else:  # no empty list: the file alone shows a reader that instances are missing
            self.store.delete(path)
        self._changed, self._saved = False, time.monotonic()
