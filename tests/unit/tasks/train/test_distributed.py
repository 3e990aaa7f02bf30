"""Joining and leaving the process group, and the time limit of a job."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch

from mcvrp.tasks.train.distributed import JobClock, distributed


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the calls with which this process, a rank of a fake group, leaves it."""
    calls: list[str] = []
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr("deepspeed.init_distributed", lambda *_, **__: None)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)
    monkeypatch.setattr("torch.distributed.barrier", lambda: calls.append("barrier"))
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: calls.append("destroy"))
    return calls


def test_ranks_leave_together(left: list[str]) -> None:
    with distributed(1):
        assert not left
    assert left == ["barrier", "destroy"]


def test_a_rank_that_fails_waits_for_nobody(left: list[str]) -> None:
    """The others may be in the middle of an exchange, which taking the group down would wait for."""
    with pytest.raises(ZeroDivisionError), distributed(1):
        raise ZeroDivisionError
    assert not left


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what sets the clock; rank 0's answer is this one's."""
    monkeypatch.setattr("torch.distributed.broadcast", lambda answer, src: None)
    now = Mock(return_value=0.0)
    monkeypatch.setattr("time.time", now)
    return lambda seconds: setattr(now, "return_value", seconds)


@pytest.mark.parametrize(("now", "over"), [(849.0, False), (851.0, True)])
def test_the_slowest_row_and_checkpoint_are_left(at: Callable[[float], None], now: float, over: bool) -> None:
    """With rows of up to 100 s and checkpoints of 50 s, a job of 1000 s trains until 850 s."""
    clock = JobClock(1000.0, torch.device("cpu"))
    for ended in range(100, 701, 50):
        at(ended)
        assert not clock.over()
    with clock.saving():
        at(750.0)
    at(800.0)
    assert not clock.over()
    at(now)
    assert clock.over() is over


def test_without_a_limit_ranks_do_not_communicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch.distributed.broadcast")
    assert not JobClock(None, torch.device("cpu")).over()


def test_rank_0_decides(at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.broadcast", lambda answer, src: answer.fill_(0))
    at(5000.0)
    assert not JobClock(1000.0, torch.device("cpu")).over()
