"""Lengths, times and progress read as a person says them."""

from __future__ import annotations

import logging

import pytest

from mcvrp.tasks.support.progress import Progress, ProgressReport, duration, listening
from mcvrp.tasks.support.text import format_seconds, length_text, listed, readable_unit


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (length_text(5.1234, "unit"), "5.123"),  # of a synthetic city
        (length_text(1234.4, "m"), "1,234 m"),
        (length_text(76_051.2, "m"), "76.05 km"),
        (length_text(2_345_678.0, "m"), "2,346 km"),
        (length_text(12.345, "km"), "12.35 km"),
        (length_text(0, "s"), "0 s"),
        (length_text(59.7, "s"), "1 min"),
        (length_text(725, "sec"), "12 min 5 s"),
        (length_text(28_800, "Seconds"), "8 h"),
        (length_text(27_031, "s"), "7 h 31 min"),
        (readable_unit("min", 1e6), (1.0, "min")),
        (readable_unit("m", 1999), (1.0, "m")),
        (readable_unit("m", 2000), (0.001, "km")),
        (format_seconds(0.0081), "8.10 ms"),
        (format_seconds(0.5), "500 ms"),
        (format_seconds(5.0), "5.00 s"),
        (format_seconds(76.8), "76.8 s"),
        (format_seconds(918), "15.3 min"),
        (format_seconds(9000), "2.50 h"),
        (duration(3.21), "3.2 s"),
        (duration(42), "42 s"),
        (duration(190), "3 min 10 s"),
        (duration(5 * 3600), "5.0 h"),
        (duration(5.7 * 86400), "5.7 days"),
        (listed("abcdef", 4), "a, b, c, d and 2 more"),
    ],
)
def test_the_unit_grows_with_the_value(shown: object, text: object) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (ProgressReport("labels", "labels", 0, 2000, 0.0, float("inf"), ""), "labels: 0/2,000 labels (0 %)"),
        (
            ProgressReport("labels", "labels", 500, 2000, 125.4, 12.0, "2 failed"),
            "labels: 500/2,000 labels (25 %), 125 labels/s, 12 s left, 2 failed",
        ),
        (ProgressReport("train", "steps", 7, 7, 1.234, 0.0, ""), "train: 7/7 steps (100 %), 1.23 steps/s"),
        (ProgressReport("card", "files", 0, 0, 0.0, float("inf"), "none"), "card: 0/0 files (100 %), none"),
    ],
)
def test_a_line_has_what_is_known(report: ProgressReport, line: str) -> None:
    assert str(report) == line


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
