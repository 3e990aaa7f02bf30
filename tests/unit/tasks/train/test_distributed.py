"""Joining and leaving the other ranks."""

from __future__ import annotations

import pytest

from mcvrp.tasks.train.loop import distributed


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
    """Who is done waits for the others before it takes the group down."""
    with distributed(1):
        assert not left
    assert left == ["barrier", "destroy"]


def test_a_rank_that_fails_waits_for_nobody(left: list[str]) -> None:
    """The others may be in the middle of an exchange, which taking the group down would wait for."""
    with pytest.raises(ZeroDivisionError), distributed(1):
        raise ZeroDivisionError
    assert not left
