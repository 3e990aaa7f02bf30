"""What a night or round has to say, as sentences, figures and Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from storage.trials import TrialRecord
from tasks.markdown import table
from tasks.progress import duration
from tasks.trial_decision import FROZEN
from tasks.trial_measured import Measured


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
