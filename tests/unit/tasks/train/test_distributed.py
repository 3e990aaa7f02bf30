"""Joining and leaving the process group."""

from __future__ import annotations

import pytest

from mcvrp.tasks.train.trainer import distributed


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
