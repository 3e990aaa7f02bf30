"""The README of a night or round: what was decided and why, its figures, tables and picture."""

from __future__ import annotations

import json
from collections.abc import Sequence

from storage import layout
from storage.store import Store
from storage.trials import TrialRecord, trial_records
from tasks.trial_measured import Measured, read_measured
from tasks.trial_words import comparison, drifts, figures, gained, round_table, sentence


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
