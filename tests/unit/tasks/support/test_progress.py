"""Tests of progress: rate and remaining time of the last minute, and what an interrupted run keeps."""

from __future__ import annotations

import logging
import time

import pytest

from mcvrp.tasks.support.progress import Progress, interrupted_text, listening


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


def test_the_remaining_time_of_a_steady_run_never_rises(clock: Clock) -> None:
    """Not even after a slow start, of which the rate knows nothing a minute later."""
    with Progress("labels d", 4000, "labels") as progress:
        clock.now += 30
        left = []
        for _ in range(390):
            clock.now += 1
            progress.advance(10)
            left.append(progress.report().eta)
        assert left == sorted(left, reverse=True)
        assert progress.report().rate == pytest.approx(10)


def test_the_rate_follows_the_last_minute(clock: Clock) -> None:
    with Progress("labels d", 10_000, "labels", done=500) as progress:
        for rate in (10, 2):
            for _ in range(120):
                clock.now += 1
                progress.advance(rate)
            assert progress.report().rate == pytest.approx(rate)
        clock.now += 600  # a stop is seen, too
        assert progress.report().rate < 0.5


def test_work_of_unequal_parts_has_an_even_remaining_time(clock: Clock) -> None:
    """Larger instances come last and take longer: the ETA knows, although the rate falls."""
    with Progress("labels d", 200, "labels") as progress:
        progress.left = 100 * 1.0 + 100 * 3.0
        progress.begin()
        for seconds in [1.0] * 100 + [3.0] * 99:
            clock.now += seconds
            progress.left -= seconds
            progress.advance()
            assert progress.report().eta == pytest.approx(progress.left)


@pytest.mark.parametrize(
    ("saves", "saved", "kept"),
    [(True, None, "7 of 10 steps are kept"), (False, 5, "5 of 10 steps are kept"), (False, None, "")],
)
def test_what_is_kept_is_what_is_stored(saves: bool, saved: int | None, kept: str) -> None:
    with Progress("train I", 10, "steps", saves=saves, saved=saved) as progress:
        progress.update(7)
        assert progress.report().kept == kept
    sentence = interrupted_text(progress.report().kept)
    assert sentence == f"Interrupted, {kept or 'what is finished is kept'}, start again to resume"


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
