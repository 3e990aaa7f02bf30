"""Tests of the key figures of stages and their formats, and of the jobs of a phase."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np

from mcvrp.flows.cli.output import plain
from mcvrp.flows.figures import label_figures, label_lacks
from mcvrp.tasks.label.stage import LabelSummary


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


def test_missing_labels_are_listed_held_out_ones_too() -> None:
    whole = LabelSummary("d", 10, 10, 2.0)
    held_out = replace(whole, dataset="d-held-out", lacks="the second lacks one: why")
    assert label_lacks(whole) == ""
    assert label_figures(replace(whole, held_out=held_out))["held out"] == "10 labels, dataset d-held-out"
    assert label_lacks(replace(whole, held_out=held_out)) == "the second lacks one: why"
    both = replace(whole, lacks="the first lacks two: why", held_out=held_out)
    assert label_lacks(both) == "the first lacks two: why; the second lacks one: why"
