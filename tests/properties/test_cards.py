"""The cards of training runs, benchmarks and driven days: what they say is what the store has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcvrp.flows.cli.output import markdown_text
from mcvrp.storage import layout
from mcvrp.storage.driven import IntakeReceipt, driven_readme, receipts, write_receipt
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState
from mcvrp.tasks.train import card as train_card
from mcvrp.tasks.train.card import PhaseState, run_text, write_run_card
from tests.support.datasets import CITY
from tests.support.training import small_spec


def test_a_run_says_where_each_phase_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, spec = Store.open(tmp_path), small_spec(held_out="tiny-held-out")
    metrics = {"problem_loss": 0.5, "solution_loss": None, "greedy_gap": None}
    checkpoints = {
        "I": CheckpointState("small", "I", 1_200, 1_200, 1_200, None, metrics),  # type: ignore[arg-type]
        "II": CheckpointState("small", "II", 30, 90, 30, None, metrics | {"greedy_gap": 7.25}),  # type: ignore[arg-type]
    }
    monkeypatch.setattr(train_card, "latest_checkpoint", lambda _store, _run, phase: checkpoints.get(phase))
    write_run_card(store, CITY, spec)
    readme = store.get(layout.run_card("small")).decode()
    rows = [line for line in readme.splitlines() if line.startswith(("| I ", "| II "))]
    assert [re.findall(r"1,200|30 of 90", row) for row in rows] == [["1,200"], ["30 of 90"]]
    assert "7.25" in rows[1]
    assert "Not finished" in readme
    assert "losses.png)" not in readme  # no metrics, no picture
    assert type(spec)(**store.get_json(layout.run_spec("small"))) == spec


def test_a_run_that_has_not_begun_claims_nothing() -> None:
    spec = small_spec()
    text = run_text(CITY, spec, [PhaseState(p.name, 0, None, {}) for p in spec.phases], plotted=False)
    assert text.count("not started") == 2
    assert "Not finished" in text
    done = [PhaseState(phase.name, 9, 9, {}) for phase in spec.phases]
    assert "\n\nFinished.\n" in run_text(CITY, spec, done, plotted=True)


def test_driven_days_add_up(store: Store) -> None:
    assert "| files of routes | 0 |" in driven_readme("lyon", receipts(store, "lyon"))
    days = ("2026-02-26", "2026-02-27")
    open_ = {"2026-02-27": (("C1", "C2"), ("C3",))}
    write_receipt(store, "lyon", IntakeReceipt("a.csv", "a" * 64, 1_000, days, open_, corrected=4))
    write_receipt(store, "lyon", IntakeReceipt("b.csv", "b" * 64, 100, days[:1], corrected=5))
    text = driven_readme("lyon", receipts(store, "lyon"))
    parts = (
        "| files of routes | 2 |",
        "days | 2, 2026-02-26 to 2026-02-27 |",
        "rows | 1,100 |",
        "rows in quarantine | 3 |",
        "rows that were in quarantine, corrected | 9 |",
    )
    assert all(part in text for part in parts)


def test_a_bar_in_a_file_s_name_makes_no_column(store: Store) -> None:
    write_receipt(store, "lyon", IntakeReceipt("north|south.csv", "a" * 64))
    text = driven_readme("lyon", receipts(store, "lyon"))
    (row,) = (line for line in text.splitlines() if "south" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 8
    (shown,) = (line for line in markdown_text(text).splitlines() if "south" in line)
    assert re.fullmatch(r"north\|south\.csv +0 +0 +0 +0 +a{16}", shown)
