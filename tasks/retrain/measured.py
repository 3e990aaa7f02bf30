"""Figures of a night or round, and their files: spec, metrics, picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pandas as pd

from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.decide import Bucket
from mcvrp.tasks.retrain.drift import Drift
from mcvrp.tasks.retrain.labels import Mix
from mcvrp.tasks.retrain.spec import TrialSpec


@dataclass(frozen=True)
class Gains:
    """Labels of a round: how many were ``looked`` at and ``improved``, and their costs.

    ``before`` and ``after`` are the mean costs of all that were looked at, in the city's unit.
    """

    looked: int
    improved: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """Percent of the labels that were improved."""
        return 100 * self.improved / self.looked if self.looked else 0.0

    @property
    def change(self) -> float:
        """Change of the mean cost in percent, at most 0."""
        return 100 * (self.after / self.before - 1) if self.before else 0.0


@dataclass(frozen=True)
class Measured:
    """Figures of a trial that took ``seconds``: what was learned from, and how the challenger compares.

    Parameters
    ----------
    buckets, p_values
        As in `tasks.retrain.decide.Decision`.
    drift
        Of fresh days against the old labels, of a night.
    gains
        Of the labels, of a round.
    """

    mix: Mix
    buckets: tuple[Bucket, ...]
    p_values: dict[str, float]
    seconds: float
    drift: tuple[Drift, ...] = ()
    gains: Gains | None = None


def write_measured(store: Store, spec: TrialSpec, name: str, measured: Measured, pairs: pd.DataFrame) -> None:
    """Write spec, figures and picture of the trial ``name``."""
    from mcvrp.tasks.retrain.picture import comparison_figure

    store.put_json(layout.trial_spec(spec.model, name), spec.model_dump(mode="json"))
    store.put_json(layout.trial_metrics(spec.model, name), asdict(measured))
    store.put(layout.trial_picture(spec.model, name), comparison_figure(pairs, spec.worst))


def read_measured(store: Store, model: str, name: str) -> Measured:
    """Return the figures of the trial ``name``; McvrpError if there are none."""
    path, named = layout.trial_metrics(model, name), "document of a trial's figures"
    return read_document(store, path, Measured, named=named, hint="remove its folder")
