"""Keeping house: what nobody needs any more is found, said, and removed if that is asked.

Safe at any moment and beside anybody: a run or dataset is cleaned under the lease of who works on
it, a version of a model is marked before the aliases are looked at, and what makes a thing count
(a state, a card) goes first, so that what is left of a removal is no thing but a scrap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.cache import abandoned_caches, remove_cache
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import STATE
from mcvrp.tasks.gc import find as gc_find
from mcvrp.tasks.gc import trials as gc_trials
from mcvrp.tasks.gc.find import Candidate, Found, Skipped, StoreView, in_attention
from mcvrp.tasks.gc.spec import RetentionSpec

__all__ = ["CleaningSummary", "RetentionSpec", "clean"]


@dataclass(frozen=True)
class CleaningSummary:
    """What was found, and whether it was removed; ``skipped`` says what was left alone and why.

    ``kept_now`` counts candidates that somebody began to need in the meantime.
    """

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]
    deleted: bool
    kept_now: int = 0

    @property
    def files(self) -> int:
        """The number of files."""
        return sum(candidate.files for candidate in self.candidates)

    @property
    def bytes(self) -> int:
        """What they hold."""
        return sum(candidate.bytes for candidate in self.candidates)


@dataclass(frozen=True)
class _Area:
    """A top folder of the store: what of its folders may go, how, and who is kept off meanwhile."""

    folder: str
    candidate: Callable[[StoreView, str], Found]
    remove: Callable[[Store, Candidate], bool]
    lease: Callable[[str], str] | None = None
    what: str = ""


def clean(
    store: Store, policy: RetentionSpec, *, delete: bool, cache: Path | None = None, now: float | None = None
) -> CleaningSummary:
    """Find what ``policy`` lets go of ``store``, and of this machine's ``cache``; with ``delete``, remove it.

    Stopped at any moment, the same call goes on. ``now`` is for tests: the store's own clock.

    Raises
    ------
    StoreError
        If the store refuses, or gives no answer.
    """
    view = StoreView(store, policy, store.now() if now is None else now)
    candidates: list[Candidate] = []
    skipped: list[Skipped] = []
    planned: list[tuple[_Area, str, list[Candidate]]] = []
    for area in _AREAS:
        for name in store.folders(area.folder):
            here = list(_looked_into(view, area, name))
            skipped += [item for item in here if isinstance(item, Skipped)]
            mine = [item for item in here if isinstance(item, Candidate)]
            candidates += mine
            if mine:
                planned.append((area, name, mine))
    there = {candidate.path for candidate in candidates}
    loose = [candidate for candidate in gc_find.scraps(view) if not _within(candidate.path, there)]
    caches = [] if cache is None else list(_caches(view, cache))
    if not delete:
        return CleaningSummary((*candidates, *loose, *caches), tuple(skipped), deleted=False)
    _unmark(view)
    gone = [
        candidate for area, name, mine in planned for candidate in _removed(view, area, name, mine, skipped)
    ]
    for candidate in loose:
        store.delete(candidate.path)
    gone_caches = [candidate for candidate in caches if remove_cache(Path(candidate.path))]
    kept_now = len(candidates) - len(gone)
    return CleaningSummary((*gone, *loose, *gone_caches), tuple(skipped), deleted=True, kept_now=kept_now)


def _looked_into(view: StoreView, area: _Area, name: str) -> Iterator[Candidate | Skipped]:
    try:
        layout.checked_name("folder", name)
        yield from area.candidate(view, name)
    except StoreError:
        raise
    except McvrpError as error:
        yield Skipped(f"{area.folder}/{name}", str(error))


def _removed(
    view: StoreView, area: _Area, name: str, planned: list[Candidate], skipped: list[Skipped]
) -> Iterator[Candidate]:
    """Remove what was ``planned`` and is still found now that everybody else is kept off; yield it."""
    paths = {candidate.path for candidate in planned}
    try:
        with _alone(view.store, area, name):
            again = list(_looked_into(replace(view, held=area.lease is not None), area, name))
            for candidate in again:
                if (
                    isinstance(candidate, Candidate)
                    and candidate.path in paths
                    and area.remove(view.store, candidate)
                ):
                    yield candidate
    except StoreError:
        raise
    except McvrpError as error:  # somebody has come before us
        skipped.append(Skipped(f"{area.folder}/{name}", str(error)))


@contextlib.contextmanager
def _alone(store: Store, area: _Area, name: str) -> Iterator[None]:
    if area.lease is None:
        yield
        return
    with holding(store, area.lease(name), area.what.format(name=name)) as lease:
        yield
        lease.check()


def _within(path: str, folders: set[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _remove(store: Store, candidate: Candidate) -> bool:
    store.delete(candidate.path)
    return True


def _remove_labels(store: Store, candidate: Candidate) -> bool:
    if candidate.path.count("/") > 1:
        return _remove(store, candidate)
    gc_trials.remove_whole(store, candidate)
    return True


def _remove_training(store: Store, candidate: Candidate) -> bool:
    if candidate.path.count("/") == 1:
        gc_trials.remove_whole(store, candidate)
        return True
    store.delete(f"{candidate.path}/{STATE}")  # first: what is left of a deletion is no checkpoint
    store.delete(candidate.path)
    return True


def _remove_version(store: Store, candidate: Candidate) -> bool:
    """Remove a version of a model, unless an alias has come to it; that it goes is marked before."""
    _, name, number = candidate.path.split("/")
    version = int(number)
    mark = layout.model_removal(name, version)
    store.put_json(mark, {"version": version, "why": candidate.why})
    if version in gc_find.aliased(store, name):
        store.delete(mark)
        return False
    with contextlib.suppress(McvrpError):  # a half-written one has no card
        run = model_card(store, name, version).run
        store.put_json(layout.models_removed(run), {"model": name, "version": version})
    store.delete(layout.model_card(name, version))
    store.delete(candidate.path)
    return True


def _unmark(view: StoreView) -> None:
    """Take the mark off versions that an alias names: who was to remove them was stopped before it looked."""
    for name in view.store.folders("models"):
        with contextlib.suppress(McvrpError):
            named = gc_find.aliased(view.store, name)
            marks = {layout.model_removal(name, version) for version in named}
            for file in view.store.files(layout.models_dir(name)):
                if file.path in marks and view.old([file]):
                    view.store.delete(file.path)


def _caches(view: StoreView, folder: Path) -> Iterator[Candidate]:
    for place, files in abandoned_caches(folder, view.store):
        if view.old(files):
            size = sum(file.size for file in files)
            yield Candidate(
                "cached labels", str(place), len(files), size, "its dataset is gone from the store"
            )


_AREAS = (
    _Area("models", gc_find.in_models, _remove_version),
    _Area(
        "training",
        gc_trials.in_training,
        _remove_training,
        layout.trainer_lease,
        "run {name!r} is being trained or cleaned",
    ),
    _Area(
        "labels",
        gc_trials.in_labels,
        _remove_labels,
        layout.driver_lease,
        "dataset {name!r} is being labelled or cleaned",
    ),
    _Area(
        "attention",
        in_attention,
        _remove,
        layout.attention_lease,
        "attention models {name!r} are being trained or cleaned",
    ),
    _Area("benchmarks", gc_find.in_benchmarks, _remove),
    _Area("solutions", gc_find.in_solutions, _remove),
    _Area("driven", gc_find.in_quarantine, _remove),
)
