"""Retry of store calls: growing waits, each logged, up to a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.model.errors import IncompleteError
from mcvrp.storage.store import retry
from mcvrp.storage.store.retry import StoreRetry
from mcvrp.storage.store.store import Store, StoreUnavailable


class FakeClock:
    """A clock that only `sleep` moves, and its waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(retry, "time", clock)
    return clock


class Door:
    """Work, and a store to probe, that fail for a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: int, work: int = 1) -> None:
        self.refusals, self.work = refusals, work
        monkeypatch.setattr(Store, "probe", lambda store: self.knock())

    def knock(self) -> None:
        self.refusals -= 1
        if self.refusals >= 0:
            raise StoreUnavailable(f"no answer, {self.refusals} left")

    def labour(self) -> str:
        self.work -= 1
        if self.work >= 0:
            raise StoreUnavailable("no answer")
        return "done"


def test_a_silent_store_is_waited_for(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(monkeypatch, refusals=8)
    assert StoreRetry(Store(str(tmp_path))).call(door.labour) == "done"
    assert clock.waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert caplog.messages[0] == "waiting for the store: no answer"
    assert caplog.messages[-1] == "waiting for the store: no answer, 0 left"


def test_the_waiting_ends_after_ten_minutes(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(monkeypatch, refusals=10**9)
    with pytest.raises(IncompleteError, match=r"for 10 minutes \(no answer, .*\): run the same command"):
        StoreRetry(Store(str(tmp_path))).call(door.labour)
    assert 600 < clock.now < 700


def test_only_a_successful_request_resets_the_waiting_time(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(monkeypatch, refusals=0, work=10**9)
    waiting = StoreRetry(Store(str(tmp_path)))
    with pytest.raises(IncompleteError):
        waiting.call(door.labour)
    waiting.answered()
    door.work = 3
    assert waiting.call(door.labour) == "done"
    assert clock.waits[-3:] == [1, 2, 4]
