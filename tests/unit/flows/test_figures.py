"""Tests of the key figures of stages and their formats, and of the jobs of a phase."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mcvrp.flows.cli.output import markdown_text, plain
from mcvrp.flows.figures import (
    label_figures,
    label_lacks,
    night_figures,
)
from mcvrp.tasks.driven.take import Taken
from mcvrp.tasks.label.stage import LabelSummary
from mcvrp.tasks.retrain.nightly import NightSummary


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


@pytest.mark.parametrize(("days", "why"), [((), ""), (("2026-02-01",), " (1 held out)")])
def test_a_night_without_days_to_learn_from_has_its_reason(days: tuple[str, ...], why: str) -> None:
    taken = Taken(("incoming/a.csv",), days=days)
    figures = night_figures(NightSummary("c", taken, 3, None))
    assert figures["decision"] == f"no new days to learn from{why}: nothing to do"
    assert figures["champion"] == "version 3"
