"""README of a night or round, and its parts: the decision in a sentence, key figures, Markdown tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from mcvrp.storage import layout
from mcvrp.storage.markdown import render, table
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_records
from mcvrp.tasks.retrain.decide import DRAWN
from mcvrp.tasks.retrain.measured import Gains, Measured, read_measured
from mcvrp.tasks.support.progress import duration

# Tables stand on a page of Prefect, too, which cuts off what is wider than its middle column.
_GAINS = ["Labels", "Improved", "%", "Cost before", "after", "Change (%)"]
_DRIFTS = (
    "Numbers are a mean and, in brackets, what 80 % lie between. Of the zones, sixteenths of the city, the "
    "busiest is named: its column from the west, its row from the south. A distance is from 0, none, "
    "to 1; in bold, it is worth a look."
)


def write_card(store: Store, model: str, record: TrialRecord) -> None:
    """Write the README of a trial that is decided, unless it is there or the trial has no figures."""
    readme = layout.trial_readme(model, record.name)
    if store.exists(readme) or not store.exists(layout.trial_metrics(model, record.name)):
        return
    measured = read_measured(store, model, record.name)
    rounds = [
        (each, read_measured(store, model, each.name))
        for each in trial_records(store, model, layout.ROUND)
        if each.loop == record.loop != "" and each.number <= record.number  # of a night the loop is ""
    ]
    asked = store.get_json(layout.trial_spec(model, record.name))
    text = render(
        __package__,
        "trial.md.j2",
        model=model,
        record=record,
        is_round=record.name.startswith(layout.ROUND),
        sentence=sentence(record),
        figures=figures(record, measured),
        gained=gained(measured),
        comparison=comparison(measured),
        drifts=drifts(measured),
        rounds=round_table(rounds) if rounds else "",
        seed=asked["seed"],
        spec=json.dumps(asked, indent=2),
    )
    store.put(readme, text.encode())


def sentence(record: TrialRecord) -> str:
    """Return what was decided, and why."""
    why = "; ".join(record.reasons)
    if record.applied:
        return f"Version {record.challenger} was promoted: {why}."
    return f"Version {record.challenger} was not promoted, version {record.champion} stays champion: {why}."


def learned(measured: Measured) -> str:
    """Return what was learned from: "5,714 labels, 30 % of them fresh, each day 20 times"."""
    mix = measured.mix
    rows = sum(mix.rows.values())
    if not mix.times:
        return f"{rows:,} labels"
    return f"{rows:,} labels, {100 * mix.fresh / rows:.0f} % of them fresh, each day {mix.times} times"


def figures(record: TrialRecord, measured: Measured) -> Mapping[str, str]:
    """Return the key figures of a trial."""
    shown = {
        "champion before": f"version {record.champion}",
        "challenger": f"version {record.challenger}",
        "champion now": f"version {record.now}",
        "learned from": learned(measured),
        "sizes": f"{min(measured.mix.rows)} to {max(measured.mix.rows)} customers",
        "old labels": f"dataset `{record.old}`",
    }
    if record.days:
        shown["driven days learned from"] = f"{len(record.days):,}"
    for part, p in measured.p_values.items():
        shown[f"p of the {part} instances"] = f"{p:.3g}"
    return {**shown, "time": duration(measured.seconds)}


def comparison(measured: Measured) -> str:
    """Return the table of champion against challenger, "" where nothing was compared."""
    rows = [
        [
            f"{each.part}, n = {each.sizes}",
            f"{each.instances:,}",
            _cost(each.champion),
            _cost(each.challenger),
            f"{each.change:+.2f}",
        ]
        for each in measured.buckets
    ]
    header = ["Instances", "Number", "Champion", "Challenger", "Change (%)"]
    return _section("Champion against challenger", header, rows)


def drifts(measured: Measured) -> str:
    """Return the table of fresh days against old labels, "" where there are none."""
    rows = [
        [each.name, each.then, each.now, f"**{each.distance:.2f}**" if each.alarm else f"{each.distance:.2f}"]
        for each in measured.drift
    ]
    found = _section("Fresh days against what was learned from", ["", "Before", "Now", "Distance"], rows)
    return f"{found}\n\n{_DRIFTS}" if found else ""


def gained(measured: Measured) -> str:
    """Return the table of the labels that a round has looked at, "" of a night."""
    return _section("Labels", _GAINS, [_gains(measured.gains)] if measured.gains else [])


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"## {title}\n\n{table(header, rows, right=True)}" if rows else ""


def round_table(rounds: Sequence[tuple[TrialRecord, Measured]]) -> str:
    """Return the tables of a loop: what each round made of the labels, and what of the model."""
    improved = [
        [str(record.number), *_gains(measured.gains)] for record, measured in rounds if measured.gains
    ]
    labels = [table(["Round", *_GAINS], improved, right=True)] if improved else []
    header = ["Round", "Champion", "Challenger", "Change (%)", "p", "Promoted", "Time"]
    models = table(header, [_model_row(record, measured) for record, measured in rounds], right=True)
    return "\n\n".join([*labels, models])


def _model_row(record: TrialRecord, measured: Measured) -> list[str]:
    drawn = [each for each in measured.buckets if each.part == DRAWN]
    model, p = [""] * 4, measured.p_values.get(DRAWN)
    if drawn:
        weights = [each.instances for each in drawn]
        means = [(each.champion, each.challenger, each.change) for each in drawn]
        champion, challenger, change = (
            np.average(mean, weights=weights) for mean in zip(*means, strict=True)
        )
        model = [_cost(champion), _cost(challenger), f"{change:+.3f}", "" if p is None else f"{p:.2g}"]
    promoted = f"version {record.challenger}" if record.applied else "no"
    return [str(record.number), *model, promoted, duration(measured.seconds)]


def _gains(gains: Gains) -> list[str]:
    counts = [f"{gains.looked:,}", f"{gains.improved:,}", f"{gains.share:.1f}"]
    return [*counts, _cost(gains.before), _cost(gains.after), f"{gains.change:+.3f}"]


def _cost(value: float) -> str:
    """Return a mean cost with four decimals, of large ones fewer: five digits or a little more."""
    return f"{value:,.{4 if abs(value) < 100 else 2 if abs(value) < 10_000 else 0}f}"
