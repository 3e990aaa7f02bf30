"""The README of a night or round: what was decided and why, its figures, tables and picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from mcvrp.storage import layout
from mcvrp.storage.markdown import table
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_records
from mcvrp.tasks.retrain.decide import FROZEN
from mcvrp.tasks.retrain.measured import Measured, read_measured
from mcvrp.tasks.support.progress import duration


def write_card(store: Store, model: str, record: TrialRecord) -> None:
    """Write the README of a trial that is decided, unless it is there or the trial has no figures."""
    readme = layout.trial_readme(model, record.name)
    if not store.exists(readme) and store.exists(layout.trial_metrics(model, record.name)):
        spec = json.dumps(store.get_json(layout.trial_spec(model, record.name)), indent=2)
        rounds = [
            (each, read_measured(store, model, each.name))
            for each in trial_records(store, model, layout.ROUND)
            if each.loop == record.loop != "" and each.number <= record.number
        ]
        text = card_text(model, record, read_measured(store, model, record.name), spec, rounds)
        store.put(readme, text.encode())


def card_text(
    model: str,
    record: TrialRecord,
    measured: Measured,
    spec: str,
    rounds: Sequence[tuple[TrialRecord, Measured]] = (),
) -> str:
    """Return the README of a trial as Markdown.

    Parameters
    ----------
    spec
        What was asked for, as JSON.
    rounds
        Of the loop so far, this one included.
    """
    is_round = record.name.startswith(layout.ROUND)
    kind = "Round {} of improving" if is_round else "Night {} of"
    shown = "\n".join(f"| {name} | {value} |" for name, value in figures(record, measured).items())
    parts = [
        f"# {kind.format(record.number)} `{model}`",
        f"**{sentence(record)}**",
        f"| | |\n|---|---|\n{shown}",
        gained(measured),
        comparison(measured),
        "![Change of the cost from champion to challenger](comparison.png)",
        drifts(measured),
        f"## The loop so far\n\n{round_table(rounds)}" if rounds else "",
        f"## How it was asked for\n\n```json\n{spec}\n```",
        _FILES.format(
            record="round" if is_round else "night",
            name=record.name,
            more=_IMPROVED if is_round else "",
            command="improve" if is_round else "nightly",
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_FILES = """## Files

- `comparison.parquet`: a row an instance: part (frozen test instances, fresh days), customers, name, and
  the best cost of each of the two versions, infinite where it had no answer
- `metrics.json`: the figures above; `spec.json`: what was asked for
- `{record}.json`: what was decided, written last
{more}
What was learned from is the dataset `labels/{name}`, how it went the run `training/{name}`. `mcvrp {command}`
makes such a folder, `mcvrp rollback` takes a promotion back."""
_IMPROVED = "- `improved/`: the labels that were beaten, with the routes that did so, a folder a size\n"


# What a night or round has to say, as sentences, figures and Markdown tables


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
    if not measured.buckets:
        return ""
    rows = [
        [
            each.part,
            each.sizes,
            f"{each.instances:,}",
            f"{each.champion:,.3f}",
            f"{each.challenger:,.3f}",
            f"{each.change:+.2f}",
        ]
        for each in measured.buckets
    ]
    header = ["Instances", "Customers", "Number", "Champion", "Challenger", "Change (%)"]
    return f"## Champion against challenger\n\n{table(header, rows, right=True)}"


def drifts(measured: Measured) -> str:
    """Return the table of fresh days against old labels, "" where there are none."""
    if not measured.drift:
        return ""
    rows = [
        [f"{each.name}{' **(look)**' if each.alarm else ''}", each.then, each.now, f"{each.distance:.2f}"]
        for each in measured.drift
    ]
    header = ["", "Before", "Now", "Distance"]
    return f"## Fresh days against what was learned from\n\n{table(header, rows, right=True)}"


def gained(measured: Measured) -> str:
    """Return the table of the labels that a round has looked at, "" of a night."""
    gains = measured.gains
    if gains is None:
        return ""
    row = [
        f"{gains.looked:,}",
        f"{gains.improved:,}",
        f"{gains.share:.1f}",
        f"{gains.before:,.4f}",
        f"{gains.after:,.4f}",
        f"{gains.change:+.3f}",
    ]
    header = ["Labels", "Improved", "%", "Mean cost before", "after", "Change (%)"]
    return f"## Labels\n\n{table(header, [row], right=True)}"


def round_table(rounds: Sequence[tuple[TrialRecord, Measured]]) -> str:
    """Return the table of a loop: what each round made of labels and model."""
    header = ["Round", "Labels", "Improved", "%", "Label cost", "after", "Change (%)"]
    header += ["Champion", "Challenger", "Change (%)", "p", "Promoted", "Time"]
    return table(header, [_round_row(record, measured) for record, measured in rounds], right=True)


def _round_row(record: TrialRecord, measured: Measured) -> list[str]:
    gains = measured.gains
    labels = ["", "", "", "", "", ""]
    if gains:
        labels = [f"{gains.looked:,}", f"{gains.improved:,}", f"{gains.share:.1f}"]
        labels += [f"{gains.before:,.4f}", f"{gains.after:,.4f}", f"{gains.change:+.3f}"]
    frozen = [each for each in measured.buckets if each.part == FROZEN]
    model, p = ["", "", "", ""], measured.p_values.get(FROZEN)
    if frozen:
        weights = [each.instances for each in frozen]
        champion = np.average([each.champion for each in frozen], weights=weights)
        challenger = np.average([each.challenger for each in frozen], weights=weights)
        change = np.average([each.change for each in frozen], weights=weights)
        model = [f"{champion:,.4f}", f"{challenger:,.4f}", f"{change:+.3f}", "" if p is None else f"{p:.2g}"]
    promoted = f"version {record.challenger}" if record.applied else "no"
    return [str(record.number), *labels, *model, promoted, duration(measured.seconds)]
