"""Tests of the key figures of stages and their formats, and of the jobs of a phase."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np

from mcvrp.flows.cli.output import plain
from mcvrp.flows.figures import label_figures, label_lacks, night_figures
from mcvrp.tasks.driven.take import Taken
from mcvrp.tasks.label.stage import LabelSummary
from mcvrp.tasks.retrain.nightly import NightSummary


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


def test_a_night_without_files_names_its_folder() -> None:
    figures = night_figures(NightSummary("lyon", Taken("/store/incoming"), 1))
    assert figures["route files"] == "none in /store/incoming"
    figures = night_figures(NightSummary("lyon", Taken("/store/incoming", known=3), 1))
    assert figures["route files"] == "0 new, 3 known"
