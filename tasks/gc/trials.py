"""Obsolete nights and improvement rounds: their datasets and training runs, which have the trial's name.

They are kept as long as a version of a model that was made from them, and those of each model's latest trial
until the next one. Records of decisions are kept indefinitely.
"""

from __future__ import annotations

import re

from mcvrp.storage import layout
from mcvrp.storage.store.lease import active_holder
from mcvrp.tasks.gc.find import Candidate, Skipped, StoreView

_TRIAL = re.compile(r"(night|improve)-[0-9a-f]{12}")
LEASE = "lease.json"


def needless_trial(view: StoreView, folder: str, name: str) -> Candidate | Skipped | None:
    """Return ``name`` of the area ``folder`` if it belongs to an obsolete trial, otherwise None."""
    if not _TRIAL.fullmatch(name):
        return None
    path = f"{folder}/{name}"
    ours = (f"{path}/{LEASE}", layout.models_removed(name))
    files = [file for file in view.store.files(path) if file.path not in ours]
    if not view.aged(files) or name in view.needed_names:
        return None
    why = f"older than {view.policy.keep_days:g} days, and no model that is kept was made from it"
    return _retrained(view, path) or Candidate.of(f"{folder} of a night or round", path, files, why)


def _retrained(view: StoreView, path: str) -> Skipped | None:
    """Return a `Skipped` while any model is being retrained: its night may resume this one."""
    for folder in layout.TRIAL_RECORDS:
        for model in view.store.folders(folder):
            if holder := active_holder(view.store, f"{folder}/{model}/{LEASE}", view.now):
                return Skipped(path, f"model {model!r} is being retrained by {holder}")
    return None
