"""Joining and leaving the other ranks, and the clock that ends a job in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from mcvrp.tasks.train.distributed import JobClock, distributed


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what this process, a rank of a group that only pretends, does to leave it."""
    said: list[str] = []
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "0" if name == "LOCAL_RANK" else "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr("deepspeed.init_distributed", lambda *_, **__: None)
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)
    monkeypatch.setattr("torch.distributed.barrier", lambda: said.append("barrier"))
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: said.append("destroy"))
    return said


def test_ranks_leave_together(left: list[str]) -> None:
    """A rank that is done waits for the others before it takes the group down."""
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


def test_a_job_ends_while_there_is_time_for_another_row_and_a_checkpoint(at: Callable[[float], None]) -> None:
    """Both are taken to last as long as the slowest so far."""
    clock = JobClock(1000.0, torch.device("cpu"))
    at(100.0)
    assert not clock.over()
    with clock.saving():
        at(150.0)
    at(230.0)
    assert not clock.over()  # 80 s for the row: the checkpoint has a time of its own
    at(850.0)  # the slowest row: 620 s
    assert clock.over()


@pytest.mark.parametrize(("now", "over"), [(849.0, False), (851.0, True)])
def test_the_slowest_row_and_checkpoint_are_left(at: Callable[[float], None], now: float, over: bool) -> None:
    """With rows of 100 s and checkpoints of 50 s, a job of 1000 s goes on until 850 s."""
    clock = JobClock(1000.0, torch.device("cpu"))
    for began in range(0, 700, 100):
        at(began + 100.0)
        assert not clock.over()
    with clock.saving():
        at(750.0)
    at(now)
    assert clock.over() is over


def test_without_a_limit_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit, no communication."""
    monkeypatch.delattr("torch.distributed.broadcast")
    assert not JobClock(None, torch.device("cpu")).over()


def test_a_rank_does_as_rank_0_says(at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own clock may be as wrong as it likes."""
    monkeypatch.setattr("torch.distributed.broadcast", lambda answer, src: answer.fill_(0))
    at(5000.0)
    assert not JobClock(1000.0, torch.device("cpu")).over()
