"""The losses of training as Prefect shows them: the picture of the phases so far, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from flows.pictures import picture
from storage import layout
from storage.store import Store
from tasks.train_figures import begun_phases, loss_grid


def training_curve(store: Store, run: str, phases: Sequence[str]) -> str:
    """Return the losses of ``phases`` of ``run`` as Markdown with the picture inside, "" if none began."""
    begun = begun_phases(store, run, phases)
    if not begun:
        return ""
    name = f"Losses of {', '.join(phase for phase, _ in begun)}"
    return picture(name, loss_grid(begun), store.url(layout.run_losses(run)))
