"""What the artifact of a night or round shows below its figures: tables, picture, and where all lies."""

from __future__ import annotations

from collections.abc import Sequence

from flows.links import links
from flows.pictures import gallery
from storage import layout
from storage.store import Store
from storage.trials import TrialRecord


def trial_body(store: Store, model: str, record: TrialRecord, tables: Sequence[str]) -> str:
    """Return ``tables``, the picture of the trial and links to what it has made, as Markdown."""
    folder = layout.trial_dir(model, record.name)
    places = {
        "round" if record.name.startswith(layout.ROUND) else "night": folder,
        "labels": layout.label_dir(record.name),
        "training": layout.run_dir(record.name),
        "challenger": layout.model_dir(model, record.challenger),
    }
    return "\n\n".join(part for part in (*tables, gallery(store, folder), links(store, places)) if part)
