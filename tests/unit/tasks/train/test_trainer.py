"""Errors of a rank that has to stop."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from mcvrp.model.errors import IncompleteError
from mcvrp.tasks.train import trainer
from mcvrp.tasks.train.job import RankEvent, Refused
from mcvrp.tasks.train.trainer import run_rank


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Make ranks fail with an error while they prepare."""
    return lambda error: monkeypatch.setattr(trainer, "prepare", Mock(side_effect=error))


def test_an_error_for_the_user_is_a_refusal_by_any_rank(fail: Callable[[Exception], None]) -> None:
    fail(IncompleteError("the store is silent"))
    events: list[RankEvent] = []
    assert isinstance(run_rank(None, 1, 1, events.append), IncompleteError)  # type: ignore[arg-type]
    assert events == [Refused("the store is silent", 1)]


def test_a_bug_is_not_a_refusal(fail: Callable[[Exception], None]) -> None:
    fail(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run_rank(None, 0, 1, lambda _: None)  # type: ignore[arg-type]
