"""Tests of progress: rate and remaining time."""

from __future__ import annotations

import logging
import time

import pytest

from mcvrp.tasks.support.progress import Progress, duration, listening


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


def test_the_remaining_time_of_a_steady_run_never_rises(clock: Clock) -> None:
    """Not even after a slow start."""
    with Progress("labels d", 4000, "labels") as progress:
        clock.now += 30
        left = []
        for _ in range(390):
            clock.now += 1
            progress.advance(10)
            left.append(progress.report().eta)
        assert left == sorted(left, reverse=True)
        assert progress.report().rate == pytest.approx(3900 / 420)


def test_listeners_hear_of_beginning_and_end(caplog: pytest.LogCaptureFixture) -> None:
    """Short work is one line, at its end; work that was done before is none."""
    heard: list[int] = []
    with caplog.at_level(logging.INFO, "mcvrp"), listening(lambda report: heard.append(report.done)):
        with Progress("card", 3, "files") as progress:
            progress.advance(3)
        with Progress("card", 3, "files", done=3):
            pass
    assert (heard[0], heard[-1]) == (0, 3)
    assert [line.split(",")[0] for line in caplog.messages] == ["card: 3/3 files (100 %)"]


def test_long_durations_have_three_digits() -> None:
    days = [duration(86400 * number) for number in (5.74, 364.9, 6950.5)]
    assert days == ["5.7 days", "365 days", "6,950 days"]
