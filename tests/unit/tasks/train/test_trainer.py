"""Errors of a rank that has to stop."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch

from mcvrp.tasks.train import trainer
from mcvrp.tasks.train.job import RankEvent, Refused
from mcvrp.tasks.train.trainer import run_rank


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Make ranks fail with an error while they prepare."""
    return lambda error: monkeypatch.setattr(trainer, "prepare", Mock(side_effect=error))


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried\nmore")])
def test_out_of_memory_outside_of_micro_batches_is_a_refusal(
    fail: Callable[[Exception], None], error: Exception
) -> None:
    """Weights that do not fit do not fit after a restart either: an error with a remedy, by any rank."""
    fail(error)
    events: list[RankEvent] = []
    refusal = run_rank(None, 1, 1, events.append)  # type: ignore[arg-type]
    assert events == [Refused(str(refusal), 2)]
    assert "train.zero=1" in str(refusal)
    assert "\n" not in str(refusal)


def test_a_bug_is_not_a_refusal(fail: Callable[[Exception], None]) -> None:
    fail(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run_rank(None, 0, 1, lambda _: None)  # type: ignore[arg-type]
