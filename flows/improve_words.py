"""What an improvement loop has to say: figures and its table, the same in Prefect and on the console."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.improve import Round
from tasks.progress import duration
from tasks.trial_words import round_table


def improve_figures(rounds: Sequence[Round]) -> dict[str, str]:
    """Return the key figures of the rounds of a loop, one or more."""
    gains = [each.measured.gains for each in rounds if each.measured.gains]
    last, new = rounds[-1].record, sum(each.new for each in rounds)
    promoted = [f"version {each.record.challenger}" for each in rounds if each.record.applied]
    reasons = "; ".join(last.reasons)
    return {
        "rounds": f"{len(rounds)}, {new} of them new" if new else f"{len(rounds)}, all done before",
        "labels": f"{sum(each.looked for each in gains):,} looked at, "
        f"{sum(each.improved for each in gains):,} improved",
        "promoted": ", ".join(promoted) or "none",
        "last round": f"version {last.challenger} {'' if last.applied else 'not '}promoted: {reasons}",
        "champion": f"version {last.now}",
        "time": duration(sum(each.measured.seconds for each in rounds)),
    }


def loop_table(rounds: Sequence[Round]) -> str:
    """Return the table of a loop as Markdown: what each round made of labels and model."""
    return round_table([(each.record, each.measured) for each in rounds])
