"""The cards of training runs, benchmarks and driven days: what they say is what the store has."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.storage import layout
from mcvrp.storage.driven import driven_days, driven_readme, write_day
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState
from mcvrp.tasks.train import card as train_card
from mcvrp.tasks.train.card import write_run_card
from tests.support.datasets import CITY
from tests.support.labels import sweep
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


def test_driven_days_add_up(store: Store) -> None:
    assert "| days | 0 |" in driven_readme("lyon", [])
    stream, driven = InstanceStream(CITY, 7, "train"), [("2026-02-26", 20), ("2026-02-27", 21)]
    for date, n in driven:
        instance = stream(n, 0)
        day = datetime.date.fromisoformat(date)
        write_day(store, "lyon", CITY, day, (instance, sweep(CITY, instance)), "0" * 64)
    text = driven_readme("lyon", driven_days(store, "lyon"))
    parts = ("days | 2, 2026-02-26 to 2026-02-27 |", "together | 41 |", "| 2026-02-26 | 20 |")
    assert all(part in text for part in parts)
