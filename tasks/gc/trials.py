"""Nights and rounds of improving that nobody needs any more: their labels, and the runs that tuned a model.

Both bear the name of their night or round. They stay as long as a version of a model stays that
was made with them, and those of each model's last one until the next. Its record, in which
everything that was decided stands, stays for good.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mcvrp.storage import layout
from mcvrp.storage.store.lease import active_holder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.gc import find as gc_find
from mcvrp.tasks.gc.find import TRIALS, Candidate, Found, Skipped, StoreView

_TRIAL = re.compile(r"(night|improve)-[0-9a-f]{12}")
_LEASE = "lease.json"


def in_labels(view: StoreView, dataset: str) -> Found:
    """Yield ``dataset`` if it is a night's or round's that nobody needs; else what in it may go."""
    yield from _whole(view, "labels of a night or round", layout.label_dir(dataset), gc_find.in_labels)


def in_training(view: StoreView, run: str) -> Found:
    """Yield ``run`` if it is a night's or round's that nobody needs; else what in it may go."""
    yield from _whole(view, "training of a night or round", layout.run_dir(run), gc_find.in_training)


def remove_whole(store: Store, candidate: Candidate) -> None:
    """Remove a folder but for its lease, which is ours; what says what it is goes first."""
    for file in store.list(candidate.path):
        if "/" not in (name := file.removeprefix(f"{candidate.path}/")) and name != _LEASE:
            store.delete(file)
    for folder in store.folders(candidate.path):
        store.delete(f"{candidate.path}/{folder}")


def _whole(view: StoreView, kind: str, path: str, otherwise: Callable[[StoreView, str], Found]) -> Found:
    name, lease = path.rsplit("/", 1)[-1], f"{path}/{_LEASE}"
    ours = (lease, layout.models_removed(name))
    files = [file for file in view.store.files(path) if file.path not in ours]
    if not _TRIAL.fullmatch(name) or not view.aged(files) or name in _needed(view):
        yield from otherwise(view, name)
    elif busy := view.busy(path, lease) or _retrained(view, path):
        yield busy
    else:
        why = f"{view.policy.keep_days:g} days old, and no version of a model that stays was made with it"
        yield Candidate(kind, path, len(files), sum(file.size for file in files), why)


def _needed(view: StoreView) -> frozenset[str]:
    """Return the datasets and runs of versions of models that stay, and of the last night and round."""
    return view.last_trials | {name for card in view.staying for name in (card.run, card.dataset)}


def _retrained(view: StoreView, path: str) -> Skipped | None:
    """Return that a model is being retrained just now, whichever: its night may be about to take this up."""
    for folder in TRIALS:
        for model in view.store.folders(folder):
            if holder := active_holder(view.store, f"{folder}/{model}/{_LEASE}", view.now):
                return Skipped(path, f"model {model!r} is being retrained by {holder}")
    return None
