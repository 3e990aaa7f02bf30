"""Metrics of a night and its README: the decision, key figures, tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.markdown import card, escaped, section, table
from mcvrp.storage.nights import NightRecord
from mcvrp.storage.provenance import provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.decide import DRAWN, LEAST_PAIRS, Bucket
from mcvrp.tasks.retrain.labels import Mix
from mcvrp.tasks.support.progress import duration

# Tables are shown on a page of Prefect, too, which cuts off what is wider than its middle column.
_GAINS = ["Labels", "Improved", "%", "Cost before", "after", "Change (%)"]
_COMPARISON_NOTE = (
    "Drawn instances are of this night alone and in no benchmark, held-out ones driven days that no night "
    "trains on. Costs are means; the change is that of the mean cost. A size rules out a promotion if its "
    f"mean cost has grown by more than the tolerance, significantly, on at least {LEAST_PAIRS} instances."
)


@dataclass(frozen=True)
class Gains:
    """Labels that a night ``looked`` at, ``improved`` ones, mean costs of all in the city's unit."""

    looked: int
    improved: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """Improved labels in percent."""
        return 100 * self.improved / self.looked

    @property
    def change(self) -> float:
        """Change of the mean cost in percent, at most 0."""
        return 100 * (self.after / self.before - 1) if self.before else 0.0


@dataclass(frozen=True)
class NightMetrics:
    """Metrics of a night with the improvement of its labels."""

    mix: Mix
    buckets: tuple[Bucket, ...]
    p_values: dict[str, float]
    seconds: float
    gains: Gains | None = None


def read_metrics(store: Store, model: str, name: str) -> NightMetrics:
    """Return the metrics of the night ``name``; McvrpError without any."""
    path = layout.night_metrics(model, name)
    return read_document(store, path, NightMetrics, named="file of metrics", hint="remove its folder")


def write_card(store: Store, model: str, record: NightRecord) -> None:
    """Write the README of a decided night."""
    metrics = read_metrics(store, model, record.name)
    decision = f"Version {record.challenger} was promoted"
    if not record.applied:
        kept = f"version {record.champion} stays champion"
        decision = f"Version {record.challenger} was not promoted, {kept}"
    text = card(
        f"Night {record.number} of `{model}`",
        {
            "champion before": f"version {record.champion}",
            "challenger": f"version {record.challenger}",
            "training data": f"{learned(metrics)}: dataset `labels/{metrics.mix.dataset}`",
            "driven days": f"{len(record.days):,}",
            **{f"p-value ({part} instances)": f"{p:.3g}" for part, p in metrics.p_values.items()},
            "duration of the last attempt": duration(metrics.seconds),
        },
        gained(metrics),
        comparison(metrics),
        lead=f"**{escaped(decision)}: {escaped('; '.join(record.reasons))}.**",
        made=provenance_line(record.provenance),
    )
    store.put(layout.night_readme(model, record.name), text.encode())


def learned(metrics: NightMetrics) -> str:
    """Return the training mix: "5,714 labels, 30 % from fresh days, each day repeated 20 times"."""
    mix = metrics.mix
    rows = sum(mix.rows.values())
    share = 100 * mix.fresh / rows
    return f"{rows:,} labels, {share:.0f} % from fresh days, each day repeated {mix.times} times"


def comparison(metrics: NightMetrics) -> str:
    """Return the table of champion against challenger, "" if nothing was compared."""
    rows = [
        [
            f"{bucket.part}, n = {bucket.sizes}",
            f"{bucket.instances:,}",
            _cost(bucket.champion),
            _cost(bucket.challenger),
            f"{bucket.change:+.2f}",
        ]
        for bucket in metrics.buckets
    ]
    header = ["Instances", "Number", "Champion", "Challenger", "Change (%)"]
    return _section("Champion against challenger", header, rows, _COMPARISON_NOTE)


def gained(metrics: NightMetrics) -> str:
    """Return the table of the improved labels, "" without any."""
    return _section("Labels", _GAINS, [_gains(metrics.gains)] if metrics.gains else [])


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    return section(title, table(header, rows, right=True), note) if rows else ""


def nights_table(nights: Sequence[tuple[NightRecord, NightMetrics]]) -> str:
    """Return the tables of ``nights``: improvement of the labels and of the model in each."""
    improved = [[str(record.number), *_gains(metrics.gains)] for record, metrics in nights if metrics.gains]
    labels = [table(["Night", *_GAINS], improved, right=True)] if improved else []
    header = ["Night", "Champion", "Challenger", "Change (%)", "p", "Promoted", "Last attempt"]
    models = table(header, [_model_row(record, metrics) for record, metrics in nights], right=True)
    return "\n\n".join([*labels, models])


def drawn_means(metrics: NightMetrics) -> list[float]:
    """Return mean costs of champion and challenger on drawn instances and the change in percent, if any."""
    drawn = [bucket for bucket in metrics.buckets if bucket.part == DRAWN]
    means = [(bucket.champion, bucket.challenger, bucket.change) for bucket in drawn]
    weights = [bucket.instances for bucket in drawn]
    return np.average(means, axis=0, weights=weights).tolist() if drawn else []


def _model_row(record: NightRecord, metrics: NightMetrics) -> list[str]:
    model, p = [""] * 4, metrics.p_values.get(DRAWN)
    if means := drawn_means(metrics):
        champion, challenger, change = means
        model = [_cost(champion), _cost(challenger), f"{change:+.3f}", "" if p is None else f"{p:.2g}"]
    promoted = f"version {record.challenger}" if record.applied else "no"
    return [str(record.number), *model, promoted, duration(metrics.seconds)]


def _gains(gains: Gains) -> list[str]:
    counts = [f"{gains.looked:,}", f"{gains.improved:,}", f"{gains.share:.1f}"]
    return [*counts, _cost(gains.before), _cost(gains.after), f"{gains.change:+.3f}"]


def _cost(value: float) -> str:
    """Return a mean cost with about five significant digits: four decimals, fewer for large costs."""
    return f"{value:,.{4 if abs(value) < 100 else 2 if abs(value) < 10_000 else 0}f}"
