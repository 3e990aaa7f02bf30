"""Tests of progress: what a line says, and that listeners hear of the beginning and the end."""

from __future__ import annotations

import logging

import pytest

from mcvrp.tasks.support.progress import Progress, ProgressReport, listening


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
