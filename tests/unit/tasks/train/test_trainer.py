"""Errors of a rank that has to stop."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch
from torch._inductor.exc import InvalidCxxCompiler

from mcvrp.tasks.train import trainer
from mcvrp.tasks.train.job import RankEvent, Refused
from mcvrp.tasks.train.trainer import run_rank


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Make ranks fail with an error while they prepare."""
    return lambda error: monkeypatch.setattr(trainer, "prepare", Mock(side_effect=error))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (MemoryError(), "train.zero=1"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried\nmore"), "train.zero=1"),
        (InvalidCxxCompiler(), "unset it (--set train.compile=)"),
    ],
)
def test_what_a_restart_does_not_mend_is_a_refusal(
    fail: Callable[[Exception], None], error: Exception, remedy: str
) -> None:
    """Weights that do not fit, a compiler that is not there: an error with a remedy, by any rank."""
    fail(error)
    events: list[RankEvent] = []
    refusal = run_rank(None, 1, 1, events.append)  # type: ignore[arg-type]
    assert events == [Refused(str(refusal), 2)]
    assert remedy in str(refusal)
    assert "\n" not in str(refusal)


def test_a_bug_is_not_a_refusal(fail: Callable[[Exception], None]) -> None:
    fail(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run_rank(None, 0, 1, lambda _: None)  # type: ignore[arg-type]
