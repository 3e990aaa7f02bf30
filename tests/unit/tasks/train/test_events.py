"""Events of ranks: as lines of JSON, and as the user sees them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankEvent, Refused, Started, Warned, decode, encode
from mcvrp.tasks.train.ranks.launch import follow_event

STEP = StepMetrics(7, 84, 1.25, 0.5, 0.5, 0.5, 0.01, 1.0, 1e4)
ENCODER = StepMetrics(7, 84, 1.25, 0.5, math.nan, math.nan, 0.01, 1.0, 1e4)
JOB: Any = SimpleNamespace(lease=SimpleNamespace(check=lambda: None))


@pytest.mark.parametrize("event", [Started(5, 9), STEP, ENCODER, Warned('a "b"\n')])
def test_an_event_survives_its_line(event: RankEvent) -> None:
    line = encode(event)
    assert "\n" not in line
    assert repr(decode(line)) == repr(event)


@pytest.mark.parametrize("error", [McvrpError("no"), IncompleteError("the store is silent")])
def test_a_refusal_keeps_message_and_exit_code(error: McvrpError) -> None:
    event = decode(encode(Refused(str(error), error.exit_code)))
    refusal = follow_event(JOB, event, Progress("train I", 100, "steps"))
    assert (type(refusal), str(refusal)) == (type(error), str(error))


def test_progress_shows_losses() -> None:
    progress = Progress("train I", 100, "steps")
    assert follow_event(JOB, STEP, progress) is None
    assert (progress.done, progress.note) == (7, "loss 1.250 + 0.500, 10,000 tokens/s")
    follow_event(JOB, ENCODER, progress)
    assert progress.note == "loss 1.250, 10,000 tokens/s"
