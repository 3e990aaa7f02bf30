"""Garbage collection of a store: unreferenced artifacts are found, reported and, on request, removed.

A run or dataset is cleaned under its writer's lease, a version of a model is marked before the aliases are
read. The file that makes an artifact complete (a state, a card) is removed first, so that an interrupted
removal leaves an incomplete artifact.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
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
    in_solutions,
    in_training,
    needless_trial,
    or_skipped,
    scraps,
    was_trained_here,
)
from mcvrp.tasks.gc.spec import RetentionSpec as RetentionSpec


@dataclass(frozen=True)
class CleaningSummary:
    """Candidates found, or removed if ``deleted``; ``kept_now`` others became referenced in the meantime."""

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]
    deleted: bool
    kept_now: int = 0

    @property
    def files(self) -> int:
        return sum(candidate.files for candidate in self.candidates)

    @property
    def bytes(self) -> int:
        return sum(candidate.bytes for candidate in self.candidates)


@dataclass(frozen=True)
class _Area:
    """A top folder of the store, with the rule for its folders and the lease under which they are cleaned."""

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
)


def clean(
    store: Store, policy: RetentionSpec, *, delete: bool, cache: Path | None = None, now: float | None = None
) -> CleaningSummary:
    """Find what ``policy`` does not keep in ``store`` and in the local ``cache``; with ``delete``, remove it.

    An interrupted call can be repeated. ``now`` replaces the store's clock in tests. Raises StoreError if the
    store refuses a request, or does not answer.
    """
    view = StoreView(store, policy, store.now() if now is None else now)
    candidates, skipped, kept_now = list[Candidate](), list[Skipped](), 0
    loose = list(scraps(view))  # before any removal, which takes those in emptied folders with it
    if delete:
        _unmark(view)  # even if nothing is to be removed: no alias can move to a marked version
    for area in _AREAS:
        for name in store.folders(area.folder):
            found = planned = _split(_examine(view, area, name), skipped)
            if delete and planned:
                # skipped if another process has taken the lease in the meantime
                removal = or_skipped(f"{area.folder}/{name}", _removed(view, area, name, planned))
                found = _split(removal, skipped)
            candidates += found
            kept_now += len(planned) - len(found)
    folders = tuple(f"{candidate.path}/" for candidate in candidates)
    for candidate in loose:
        if not candidate.path.startswith(folders):
            candidates.append(candidate)
            if delete:
                store.delete(candidate.path)
    for path, files in abandoned_caches(cache, store) if cache else ():
        if view.old(files) and (not delete or remove_cache(path)):
            why = "the store does not have its dataset"
            candidates.append(Candidate.of("cached labels", str(path), files, why))
    return CleaningSummary(tuple(candidates), tuple(skipped), delete, kept_now)


def _split(items: Found, skipped: list[Skipped]) -> list[Candidate]:
    """Return the candidates among ``items``, and append the others to ``skipped``."""
    found = list(items)
    skipped += [item for item in found if isinstance(item, Skipped)]
    return [item for item in found if isinstance(item, Candidate)]


def _examine(view: StoreView, area: _Area, name: str, *, leased: bool = False) -> Found:
    """Return candidates in the folder ``name``; unless ``leased`` to us, another's lease skips it."""

    def rules() -> Found:
        layout.checked_name("folder", name)
        holder = area.lease and not leased and active_holder(view.store, area.lease(name), view.now)
        if holder:
            yield Skipped(f"{area.folder}/{name}", f"in use by {holder}")
        elif area.has_trials and (trial := needless_trial(view, area.folder, name)):
            yield trial
        else:
            yield from area.find(view, name)

    return or_skipped(f"{area.folder}/{name}", rules())


def _removed(view: StoreView, area: _Area, name: str, planned: list[Candidate]) -> Found:
    """Remove and yield those of ``planned`` that are still candidates under the lease of the folder."""
    paths, store = {candidate.path for candidate in planned}, view.store
    lease = area.lease and holding(store, area.lease(name), area.busy.format(name))
    with lease or contextlib.nullcontext() as held:
        fresh = replace(view)  # without its cached properties, which may be outdated
        for item in list(_examine(fresh, area, name, leased=True)):
            if isinstance(item, Candidate) and item.path in paths and _remove(store, area, item):
                yield item
        if held:
            held.check()


def _remove(store: Store, area: _Area, candidate: Candidate) -> bool:
    """Remove ``candidate``, beginning with what makes it complete; return whether it was removed."""
    if area.folder == "models":
        return _remove_version(store, candidate)
    if area.has_trials and candidate.path.count("/") == 1:
        # all but the lease of the folder, which we hold; files such as its manifest first
        files = [path for path in store.list(candidate.path) if path.count("/") == 2]
        folders = [f"{candidate.path}/{folder}" for folder in store.folders(candidate.path)]
        for path in [*files, *folders]:
            if not path.endswith(f"/{layout.LEASE}"):
                store.delete(path)
        return True
    if area.folder == "training":
        store.delete(f"{candidate.path}/{STATE}")  # first: without a state there is no checkpoint
    store.delete(candidate.path)
    return True


def _remove_version(store: Store, candidate: Candidate) -> bool:
    """Mark and remove a version of a model, unless an alias points to it; return whether it was removed."""
    _, name, number = candidate.path.split("/")
    version = int(number)
    mark = layout.model_removal(name, version)
    # A process that moves an alias reads the mark afterwards: one of the two sees the other.
    store.put_json(mark, {"version": version, "why": candidate.why})
    if version in aliased(store, name):
        store.delete(mark)
        return False
    with contextlib.suppress(McvrpError):  # an incomplete version has no card
        card = model_card(store, name, version)
        if was_trained_here(store, card):
            store.put_json(layout.models_removed(card.run), {"model": name, "version": version})
    store.delete(layout.model_card(name, version))  # first: without it there is no version
    store.delete(candidate.path)
    return True


def _unmark(view: StoreView) -> None:
    """Remove marks of versions that an alias points to, left by interrupted removals."""
    for name in view.store.folders("models"):
        with contextlib.suppress(McvrpError):
            named = aliased(view.store, name)
            marks = {layout.model_removal(name, version) for version in named}
            for file in view.store.files(layout.models_dir(name)):
                if file.path in marks and view.old([file]):
                    view.store.delete(file.path)
