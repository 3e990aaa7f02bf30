"""Garbage collection of a store: what nobody needs any more is found, said, and removed if that is asked.

Safe at any moment and beside anybody: a run or dataset is cleaned under the lease of who works on
it, a version of a model is marked before the aliases are looked at, and what makes a thing count
(a state, a card) goes first, so that what is left of a removal is no thing but a scrap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.cache import abandoned_caches, remove_cache
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store.lease import active_holder, holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import STATE
from mcvrp.tasks.gc.find import (
    Candidate,
    Found,
    Skipped,
    StoreView,
    aliased,
    in_attention,
    in_benchmarks,
    in_labels,
    in_models,
    in_quarantine,
    in_solutions,
    in_training,
    or_skipped,
    scraps,
)
from mcvrp.tasks.gc.spec import RetentionSpec as RetentionSpec
from mcvrp.tasks.gc.trials import LEASE, needless_trial


@dataclass(frozen=True)
class CleaningSummary:
    """Summary of what was found, and whether it was removed; ``skipped`` says what was left alone and why.

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
        """The number of bytes that they hold."""
        return sum(candidate.bytes for candidate in self.candidates)


@dataclass(frozen=True)
class _Area:
    """A top folder of the store: what of its folders may go, and who is kept off meanwhile."""

    folder: str
    find: Callable[[StoreView, str], Found]
    lease: Callable[[str], str] | None = None
    busy: str = ""
    has_trials: bool = False


_AREAS = (
    _Area("models", in_models),
    _Area("training", in_training, layout.trainer_lease, "run {!r} is being trained or cleaned", True),
    _Area("labels", in_labels, layout.driver_lease, "dataset {!r} is being labelled or cleaned", True),
    _Area(
        "attention", in_attention, layout.attention_lease, "attention models {!r} are in training or cleaned"
    ),
    _Area("benchmarks", in_benchmarks),
    _Area("solutions", in_solutions),
    _Area("driven", in_quarantine),
)


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
    things = [(area, name) for area in _AREAS for name in store.folders(area.folder)]
    found = {thing: _looked_into(view, *thing) for thing in things}
    planned = {thing: _candidates(items) for thing, items in found.items()}
    skipped = [item for items in found.values() for item in items if isinstance(item, Skipped)]
    candidates = [candidate for mine in planned.values() for candidate in mine]
    folders = tuple(f"{candidate.path}/" for candidate in candidates)
    loose = [candidate for candidate in scraps(view) if not candidate.path.startswith(folders)]
    caches = [] if cache is None else list(_caches(view, cache))
    if not delete:
        return CleaningSummary((*candidates, *loose, *caches), tuple(skipped), deleted=False)
    _unmark(view)  # also where nothing is to be removed now: no alias can move to a marked version
    gone = list[Candidate]()
    for (area, name), mine in planned.items():
        if mine:
            # somebody may have come before us: that is skipped
            done = list(or_skipped(f"{area.folder}/{name}", _removed(view, area, name, mine)))
            gone += _candidates(done)
            skipped += [item for item in done if isinstance(item, Skipped)]
    for candidate in loose:
        store.delete(candidate.path)
    gone_caches = [candidate for candidate in caches if remove_cache(Path(candidate.path))]
    kept_now = len(candidates) - len(gone)
    return CleaningSummary((*gone, *loose, *gone_caches), tuple(skipped), deleted=True, kept_now=kept_now)


def _looked_into(view: StoreView, area: _Area, name: str, *, held: bool = False) -> list[Candidate | Skipped]:
    """Return what of ``name`` may go; with ``held``, its lease is our own."""
    lease = None if held else area.lease
    return list(or_skipped(f"{area.folder}/{name}", _of_rules(view, area, name, lease)))


def _of_rules(view: StoreView, area: _Area, name: str, lease: Callable[[str], str] | None) -> Found:
    layout.checked_name("folder", name)
    if lease and (holder := active_holder(view.store, lease(name), view.now)):
        yield Skipped(f"{area.folder}/{name}", f"in use by {holder}")
    elif area.has_trials and (whole := needless_trial(view, area.folder, name)):
        yield whole
    else:
        yield from area.find(view, name)


def _candidates(items: Sequence[Candidate | Skipped]) -> list[Candidate]:
    return [item for item in items if isinstance(item, Candidate)]


def _removed(view: StoreView, area: _Area, name: str, planned: list[Candidate]) -> Found:
    """Remove what was ``planned`` and is still found now that everybody else is kept off; yield it."""
    paths = {candidate.path for candidate in planned}
    with _alone(view.store, area, name):
        now = replace(view)  # what a view has read of models and trials may have changed
        for candidate in _candidates(_looked_into(now, area, name, held=True)):
            if candidate.path in paths and _remove(view.store, area, candidate):
                yield candidate


@contextlib.contextmanager
def _alone(store: Store, area: _Area, name: str) -> Iterator[None]:
    if area.lease is None:
        yield
        return
    with holding(store, area.lease(name), area.busy.format(name)) as lease:
        yield
        lease.check()


def _remove(store: Store, area: _Area, candidate: Candidate) -> bool:
    """Remove ``candidate``, what makes it count first; return whether it is gone."""
    if area.folder == "models":
        return _remove_version(store, candidate)
    if area.has_trials and candidate.path.count("/") == 1:
        _remove_trial(store, candidate.path)
        return True
    if area.folder == "training":
        store.delete(f"{candidate.path}/{STATE}")  # what is left of a deletion is no checkpoint
    store.delete(candidate.path)
    return True


def _remove_trial(store: Store, path: str) -> None:
    """Remove a folder but for its lease, which is ours; what says what it is goes first."""
    for file in store.list(path):
        if "/" not in (name := file.removeprefix(f"{path}/")) and name != LEASE:
            store.delete(file)
    for folder in store.folders(path):
        store.delete(f"{path}/{folder}")


def _remove_version(store: Store, candidate: Candidate) -> bool:
    """Remove a version of a model, unless an alias has come to it; that it goes is marked before."""
    _, name, number = candidate.path.split("/")
    version = int(number)
    mark = layout.model_removal(name, version)
    # Who moves an alias does so first and looks for a mark then: one of the two sees the other.
    store.put_json(mark, {"version": version, "why": candidate.why})
    if version in aliased(store, name):  # somebody has come to need it
        store.delete(mark)
        return False
    with contextlib.suppress(McvrpError):  # a half-written one has no card
        run = model_card(store, name, version).run
        store.put_json(layout.models_removed(run), {"model": name, "version": version})
    store.delete(layout.model_card(name, version))  # first: without it there is no version
    store.delete(candidate.path)
    return True


def _unmark(view: StoreView) -> None:
    """Take the mark off versions that an alias names: who was to remove them was stopped before it looked."""
    for name in view.store.folders("models"):
        with contextlib.suppress(McvrpError):
            named = aliased(view.store, name)
            marks = {layout.model_removal(name, version) for version in named}
            for file in view.store.files(layout.models_dir(name)):
                if file.path in marks and view.old([file]):
                    view.store.delete(file.path)


def _caches(view: StoreView, folder: Path) -> Iterator[Candidate]:
    for place, files in abandoned_caches(folder, view.store):
        if view.old(files):
            yield Candidate.of("cached labels", str(place), files, "its dataset is gone from the store")
