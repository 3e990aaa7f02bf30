"""Joining and leaving the process group, and the time limit of a job."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mcvrp.tasks.train.distributed import JobClock, distributed


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the calls with which this process, a rank of a fake group, leaves it."""
    calls: list[str] = []
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "0" if name == "LOCAL_RANK" else "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr("deepspeed.init_distributed", lambda *_, **__: None)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)
    monkeypatch.setattr("torch.distributed.barrier", lambda: calls.append("barrier"))
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: calls.append("destroy"))
    return calls


def test_ranks_leave_together(left: list[str]) -> None:
    """A finished rank waits for the others before it destroys the group."""
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
    now = [0.0]
    monkeypatch.setattr("time.time", lambda: now[0])

    def set_clock(seconds: float) -> None:
        now[0] = seconds

    return set_clock


def test_a_job_ends_in_time_for_another_row_and_a_checkpoint(at: Callable[[float], None]) -> None:
    """Both are assumed to take as long as the slowest so far."""
    clock = JobClock(1000.0, torch.device("cpu"))
    at(100.0)
    assert not clock.over()
    with clock.saving():
        at(150.0)
    at(230.0)
    assert not clock.over()  # 80 s for the row: a checkpoint is measured separately
    at(850.0)  # the slowest row: 620 s
    assert clock.over()


@pytest.mark.parametrize(("now", "over"), [(849.0, False), (851.0, True)])
def test_the_slowest_row_and_checkpoint_are_left(at: Callable[[float], None], now: float, over: bool) -> None:
    """With rows of 100 s and checkpoints of 50 s, a job of 1000 s trains until 850 s."""
    clock = JobClock(1000.0, torch.device("cpu"))
    for began in range(0, 700, 100):
        at(began + 100.0)
        assert not clock.over()
    with clock.saving():
        at(750.0)
    at(now)
    assert clock.over() is over


def test_without_a_limit_ranks_do_not_communicate(monkeypatch: pytest.MonkeyPatch) -> None:
    """No collective, so no cost."""
    monkeypatch.delattr("torch.distributed.broadcast")
    assert not JobClock(None, torch.device("cpu")).over()


def test_rank_0_decides(at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clocks of other ranks say."""
    monkeypatch.setattr("torch.distributed.broadcast", lambda answer, src: answer.fill_(0))
    at(5000.0)
    assert not JobClock(1000.0, torch.device("cpu")).over()
