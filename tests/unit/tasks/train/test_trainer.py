"""Errors of a rank that has to stop."""

from __future__ import annotations

import pytest
import torch

from mcvrp.tasks.train import trainer
from mcvrp.tasks.train.events import RankEvent, Refused
from mcvrp.tasks.train.trainer import run_rank


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried ...\nmore")]
)
def test_out_of_memory_outside_of_micro_batches_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Weights that do not fit do not fit after a restart either: an error with a remedy, no restart."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(trainer, "prepare", fail)
    events: list[RankEvent] = []
    refusal = run_rank(None, 1, 1, events.append)  # type: ignore[arg-type]
    assert [type(event) for event in events] == [Refused]
    assert "train.zero=1" in str(refusal)
    assert "\n" not in str(refusal)


def test_a_bug_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error propagates, so that its traceback is in the log."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(trainer, "prepare", fail)
    with pytest.raises(ZeroDivisionError):
        run_rank(None, 0, 1, lambda _: None)  # type: ignore[arg-type]
