"""Garbage collection of a store: unreferenced artifacts are found, reported and, on request, removed.

Safe at any time and with concurrent processes: a run or dataset is cleaned under its writer's lease, and a
version of a model is marked before the aliases are read. The file that makes an artifact complete (a state, a
card) is removed first, so that an interrupted removal leaves an incomplete artifact.
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
    """Candidates that were found, or removed if ``deleted``; ``skipped`` could not be examined.

    ``kept_now`` counts candidates that became referenced in the meantime.
    """

    candidates: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]
    deleted: bool
    kept_now: int = 0

    @property
    def files(self) -> int:
        """Number of files."""
        return sum(candidate.files for candidate in self.candidates)

    @property
    def bytes(self) -> int:
        """Total size in bytes."""
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
    _Area("driven", in_quarantine),
)


def clean(
    store: Store, policy: RetentionSpec, *, delete: bool, cache: Path | None = None, now: float | None = None
) -> CleaningSummary:
    """Find what ``policy`` does not keep in ``store`` and in the local ``cache``; with ``delete``, remove it.

    An interrupted call can be repeated. ``now`` replaces the store's clock in tests.

    Raises
    ------
    StoreError
        If the store refuses a request, or does not answer.
    """
    view = StoreView(store, policy, store.now() if now is None else now)
    planned, skipped = dict[tuple[_Area, str], list[Candidate]](), list[Skipped]()
    for area in _AREAS:
        for name in store.folders(area.folder):
            planned[area, name] = _split(_examine(view, area, name, area.lease), skipped)
    candidates = [candidate for found in planned.values() for candidate in found]
    folders = tuple(f"{candidate.path}/" for candidate in candidates)
    loose = [candidate for candidate in scraps(view) if not candidate.path.startswith(folders)]
    caches = [] if cache is None else list(_caches(view, cache))
    if not delete:
        return CleaningSummary((*candidates, *loose, *caches), tuple(skipped), deleted=False)
    _unmark(view)  # even if nothing is to be removed: no alias can move to a marked version
    removed = list[Candidate]()
    for (area, name), found in planned.items():
        if found:
            # skipped if another process has taken the lease in the meantime
            items = or_skipped(f"{area.folder}/{name}", _removed(view, area, name, found))
            removed += _split(items, skipped)
    for candidate in loose:
        store.delete(candidate.path)
    removed_caches = [candidate for candidate in caches if remove_cache(Path(candidate.path))]
    kept_now = len(candidates) - len(removed)
    return CleaningSummary(
        (*removed, *loose, *removed_caches), tuple(skipped), deleted=True, kept_now=kept_now
    )


def _split(items: Found, skipped: list[Skipped]) -> list[Candidate]:
    """Return the candidates among ``items``, and append the others to ``skipped``."""
    found = list(items)
    skipped += [item for item in found if isinstance(item, Skipped)]
    return [item for item in found if isinstance(item, Candidate)]


def _examine(view: StoreView, area: _Area, name: str, lease: Callable[[str], str] | None) -> Found:
    """Return candidates in the folder ``name``; it is skipped while another process holds its ``lease``."""
    return or_skipped(f"{area.folder}/{name}", _apply_rules(view, area, name, lease))


def _apply_rules(view: StoreView, area: _Area, name: str, lease: Callable[[str], str] | None) -> Found:
    layout.checked_name("folder", name)
    if lease and (holder := active_holder(view.store, lease(name), view.now)):
        yield Skipped(f"{area.folder}/{name}", f"in use by {holder}")
    elif area.has_trials and (trial := needless_trial(view, area.folder, name)):
        yield trial
    else:
        yield from area.find(view, name)


def _removed(view: StoreView, area: _Area, name: str, planned: list[Candidate]) -> Found:
    """Remove and yield those of ``planned`` that are still candidates under the lease of the folder."""
    paths = {candidate.path for candidate in planned}
    with _exclusive(view.store, area, name):
        fresh = replace(view)  # without its cached properties, which may be outdated
        for item in list(_examine(fresh, area, name, lease=None)):
            if isinstance(item, Candidate) and item.path in paths and _remove(view.store, area, item):
                yield item


@contextlib.contextmanager
def _exclusive(store: Store, area: _Area, name: str) -> Iterator[None]:
    if area.lease is None:
        yield
        return
    with holding(store, area.lease(name), area.busy.format(name)) as lease:
        yield
        lease.check()


def _remove(store: Store, area: _Area, candidate: Candidate) -> bool:
    """Remove ``candidate``, beginning with what makes it complete; return whether it was removed."""
    if area.folder == "models":
        return _remove_version(store, candidate)
    if area.has_trials and candidate.path.count("/") == 1:
        _remove_trial(store, candidate.path)
        return True
    if area.folder == "training":
        store.delete(f"{candidate.path}/{STATE}")  # first: without a state there is no checkpoint
    store.delete(candidate.path)
    return True


def _remove_trial(store: Store, path: str) -> None:
    """Remove a folder except for its lease, which we hold; files such as its manifest first."""
    for file in store.list(path):
        if "/" not in (name := file.removeprefix(f"{path}/")) and name != LEASE:
            store.delete(file)
    for folder in store.folders(path):
        store.delete(f"{path}/{folder}")


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
        run = model_card(store, name, version).run
        store.put_json(layout.models_removed(run), {"model": name, "version": version})
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


def _caches(view: StoreView, folder: Path) -> Iterator[Candidate]:
    for path, files in abandoned_caches(folder, view.store):
        if view.old(files):
            yield Candidate.of("cached labels", str(path), files, "the store does not have its dataset")
