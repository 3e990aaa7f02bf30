"""Tests of the key figures of stages and their formats, and of the jobs of a phase."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mcvrp.flows import train as flow
from mcvrp.flows.cli.output import markdown_text, plain
from mcvrp.flows.figures import (
    label_figures,
    label_lacks,
    night_figures,
    night_lacks,
    phase_figures,
    phase_table,
)
from mcvrp.model.problem import City
from mcvrp.storage.driven import IntakeReceipt
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.intake import Quarantined
from mcvrp.tasks.driven.stable_files import LeftOut
from mcvrp.tasks.driven.take import Taken
from mcvrp.tasks.label.stage import LabelSummary
from mcvrp.tasks.retrain.nightly import NightSummary
from mcvrp.tasks.train.phases import PhaseSummary
from tests.support.training import small_spec


def test_a_markdown_table_is_aligned_for_the_terminal() -> None:
    markdown = "**T**\n\n| N | Method |\n|--:|---|\n| 20 | A |\n| 5 | Long |\n\n- note | with a bar"
    assert markdown_text(markdown) == "T\n\n N  Method\n--  ------\n20  A\n 5  Long\n\n- note | with a bar"
    assert markdown_text("| | |\n|---|---|\n| a | 1 |\n| long | 2 |") == "a     1\nlong  2"


@dataclass(frozen=True)
class Inner:
    values: tuple[float, ...]
    array: object


def test_plain_is_json_whatever_is_inside() -> None:
    document = {20: Inner((1.0, float("inf")), np.arange(2)), "n": np.int64(3)}
    assert json.loads(json.dumps(plain(document))) == {
        "20": {"values": [1.0, None], "array": [0, 1]},
        "n": 3,
    }


def test_a_run_that_labelled_nothing_claims_no_speed() -> None:
    assert "speed" not in label_figures(LabelSummary("d", 10, 0, 0.1, 0.0, 0))
    assert "5.0 labels/s" in label_figures(LabelSummary("d", 10, 10, 2.0, 2.0, 2))["speed"]


def test_missing_labels_are_listed_held_out_ones_too() -> None:
    whole = LabelSummary("d", 10, 10, 2.0, 2.0, 2)
    held_out = replace(whole, dataset="d-held-out", lacks="the second lacks one: why")
    assert label_lacks(whole) == ""
    assert label_figures(replace(whole, held_out=held_out))["held out"] == "10 labels, dataset d-held-out"
    assert label_lacks(replace(whole, held_out=held_out)) == "the second lacks one: why"
    both = replace(whole, lacks="the first lacks two: why", held_out=held_out)
    assert label_lacks(both) == "the first lacks two: why; the second lacks one: why"


def test_a_phase_has_its_step_and_its_gap() -> None:
    figures = phase_figures(PhaseSummary("II", 10, 30, 300, 0, 1.0, {"greedy_gap": 7.5}))
    assert figures["steps"] == "10 of 30"
    assert figures["greedy gap, held out"] == "7.50 %"
    assert "greedy gap, held out" not in phase_figures(PhaseSummary("I", 30, 30, 300, 0, 1.0, {}))


@pytest.mark.parametrize(("days", "why"), [((), ""), (("2026-02-01",), " (1 held out)")])
def test_a_night_without_days_to_learn_from_has_its_reason(days: tuple[str, ...], why: str) -> None:
    taken = Taken((IntakeReceipt("a.csv", "0", days=days),), 0, days=list(days))
    figures = night_figures(NightSummary("c", taken, 3, None))
    assert figures["decision"] == f"no new days to learn from{why}: nothing to do"
    assert figures["champion"] == "version 3"


def test_a_night_names_the_files_and_days_that_it_left_out() -> None:
    """Those that wait for themselves are no reason for an exit code."""
    taken = Taken(
        (),
        0,
        left_out=(LeftOut("incoming/b.csv", "is refused: b"), LeftOut("incoming/c.csv", "waits", waits=True)),
        quarantined=(
            Quarantined(IntakeReceipt("a.csv", "0", open={"2026-02-01": (("C1",),)}), ("row 2: x",)),
        ),
    )
    taken = replace(taken, days=["2026-02-01"])
    night = NightSummary("c", taken, 3, None, waiting=("2026-02-01",))
    figures = night_figures(night)
    assert figures["decision"] == "no new days to learn from: nothing to do"
    assert figures["refused files"] == "incoming/b.csv"
    assert figures["not ingested yet"] == "incoming/c.csv waits"
    assert figures["rows in quarantine"] == "1"
    assert figures["not learned from"].startswith("2026-02-01: rows of it are in quarantine")
    refused, rejected = night_lacks(night).splitlines()
    assert refused == "incoming/b.csv is refused: b"
    assert rejected.startswith("a.csv: 1 rows of 2026-02-01 are in quarantine: row 2: x; correct or remove")


def test_phases_are_columns() -> None:
    kept = PhaseSummary("III", 9, 9, 90, 0, 1.0, {"greedy_gap": 7.5, "kept_step": 4})
    table, note = phase_table([PhaseSummary("I", 30, 30, 300, 0, 1.0, {}), kept]).split("\n\n")
    rows = table.splitlines()
    assert rows[0] == "| phase | I | III |"
    assert rows[2] == "| steps | 30 | 9 |"
    assert rows[-1] == "| greedy gap, held out |  | 7.50 % |"
    assert note == f"- III: {phase_figures(kept)['note']}"


def test_each_job_of_a_phase_is_a_task_run_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    titles = []

    def job(store: Store, city: City, spec: object, phase: str, title: str) -> PhaseSummary:
        titles.append(title)
        done = len(titles)
        return PhaseSummary(phase, 4 * done, 12, 144, 4 * (done - 1), 1.0, {})

    assert flow.train_job.task_run_name == "train {title}"
    monkeypatch.setattr(flow, "train_job", job)
    summary = flow.train_one(Store(str(tmp_path)), City.uniform(30, seed=1), small_spec(), "II")
    assert titles == ["II", "II, job 2", "II, job 3"]
    assert summary == PhaseSummary("II", 12, 12, 144, 0, 3.0, {})
