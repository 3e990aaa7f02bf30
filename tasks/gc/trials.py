"""Nights and rounds of improving that nobody needs any more: their labels, and the runs that tuned a model.

Both bear the name of their night or round. They stay as long as a version of a model stays that
was made with them, and those of each model's last one until the next. Its record, in which
everything that was decided stands, stays for good.
"""

from __future__ import annotations

import re

from mcvrp.storage import layout
from mcvrp.storage.store.lease import active_holder
from mcvrp.tasks.gc.find import Candidate, Skipped, StoreView

_TRIAL = re.compile(r"(night|improve)-[0-9a-f]{12}")
LEASE = "lease.json"


def needless_trial(view: StoreView, folder: str, name: str) -> Candidate | Skipped | None:
    """Return ``name`` of the area ``folder`` if it is a night's or round's that nobody needs, else None."""
    if not _TRIAL.fullmatch(name):
        return None
    path = f"{folder}/{name}"
    ours = (f"{path}/{LEASE}", layout.models_removed(name))
    files = [file for file in view.store.files(path) if file.path not in ours]
    if not view.aged(files) or name in view.needed_names:
        return None
    why = f"{view.policy.keep_days:g} days old, and no version of a model that stays was made with it"
    return _retrained(view, path) or Candidate.of(f"{folder} of a night or round", path, files, why)


def _retrained(view: StoreView, path: str) -> Skipped | None:
    """Return that a model is being retrained just now, whichever: its night may be about to take this up."""
    for folder in layout.TRIAL_RECORDS:
        for model in view.store.folders(folder):
            if holder := active_holder(view.store, f"{folder}/{model}/{LEASE}", view.now):
                return Skipped(path, f"model {model!r} is being retrained by {holder}")
    return None
