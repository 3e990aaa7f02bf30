"""Metrics of a night or round, and the files that hold them: spec, metrics, plot."""

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
    """Number of labels that a round ``looked`` at and ``improved``, with mean costs in the city's unit.

    ``before`` and ``after`` are means over all labels that were looked at.
    """

    looked: int
    improved: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """Improved labels in percent."""
        return 100 * self.improved / self.looked if self.looked else 0.0

    @property
    def change(self) -> float:
        """Change of the mean cost in percent, at most 0."""
        return 100 * (self.after / self.before - 1) if self.before else 0.0


@dataclass(frozen=True)
class TrialMetrics:
    """Metrics of a trial: training mix, comparison with the champion, duration in ``seconds``.

    Parameters
    ----------
    buckets, p_values
        As in `tasks.retrain.decide.Decision`.
    drift
        Nights: drift of fresh days from the old labels.
    gains
        Rounds: improvement of the labels.
    """

    mix: Mix
    buckets: tuple[Bucket, ...]
    p_values: dict[str, float]
    seconds: float
    drift: tuple[Drift, ...] = ()
    gains: Gains | None = None


def write_metrics(
    store: Store, spec: TrialSpec, name: str, metrics: TrialMetrics, pairs: pd.DataFrame
) -> None:
    """Write spec, metrics and plot of the trial ``name``."""
    from mcvrp.tasks.retrain.picture import comparison_figure

    store.put_json(layout.trial_spec(spec.model, name), spec.model_dump(mode="json"))
    store.put_json(layout.trial_metrics(spec.model, name), asdict(metrics))
    store.put(layout.trial_picture(spec.model, name), comparison_figure(pairs, spec.worst))


def read_metrics(store: Store, model: str, name: str) -> TrialMetrics:
    """Return the metrics of the trial ``name``; McvrpError without any."""
    path = layout.trial_metrics(model, name)
    return read_document(store, path, TrialMetrics, named="file of trial metrics", hint="remove its folder")
