"""Hostile inputs: endless, huge, deep or absurd ones are refused in a sentence, at once, in little memory."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import psutil
import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.main import parse
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import require_consistent
from mcvrp.model.errors import LONGEST, McvrpError
from tests.support.hostile import CHANGES, HOSTILE, LONG, OPTIONS, PRESETS, SPREADSHEETS, TABLES, Act, Place

PROCESSOR_SECONDS = 10.0  # of a case; the longest, a million rows of text, takes three
MEMORY = 400 * 2**20  # bytes beyond what the process has


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the context's processor time and memory; one that waits indefinitely is interrupted."""

    def over(number: int, frame: Any) -> None:
        raise AssertionError(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.signal(number, over) for number in (signal.SIGPROF, signal.SIGALRM)}
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (psutil.Process().memory_info().data + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    signal.alarm(120)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        for number, handler in before.items():
            signal.signal(number, handler)


def _orders(table: Callable[[], str | bytes]) -> Callable[[Place], Act]:
    return lambda place: place.orders(place.file(table()))


def _change(change: str) -> Callable[[Place], Act]:
    return lambda _: lambda: require_consistent(load_preset("smoke", [change]))


def _preset(text: str) -> Callable[[Place], Act]:
    return lambda place: lambda: load_preset(place.file(text, "own.toml"))


def _command(arguments: tuple[str, ...]) -> Callable[[Place], Act]:
    return lambda _: lambda: parse(list(arguments))


CASES = {
    **HOSTILE,
    **{f"--set {change[:40]}": (_change(change), part) for change, part in CHANGES.items()},
    **{f"preset {text[:20]}": (_preset(text), part) for text, part in PRESETS.items()},
    **{f"mcvrp {' '.join(words)[:40]}": (_command(words), part) for words, part in OPTIONS.items()},
    **{name: (_orders(table), part) for name, (table, part) in {**TABLES, **SPREADSHEETS}.items()},
}


@pytest.mark.parametrize(("lay", "part"), CASES.values(), ids=list(CASES))
def test_a_hostile_input_is_read_or_one_sentence_at_once(
    lay: Callable[[Place], Act], part: str | None, tmp_path: Path
) -> None:
    """It fits into 300 characters that can be printed, and comes within bounds of time and memory."""
    act = lay(Place(tmp_path))
    with bounded(), nullcontext() if part is None else pytest.raises(McvrpError) as caught:
        act()
    if part is not None:
        message = str(caught.value)
        assert part in message
        assert message.isprintable()
        assert len(message) <= LONGEST


def test_the_command_says_it_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a message has in it, the terminal gets one line that it can show, of 300 characters."""
    fail = Mock(side_effect=McvrpError(f"of \x1b[2J {LONG}\n{LONG}: the remedy"))
    monkeypatch.setattr("mcvrp.flows.cli.plan.plan_run", fail)
    with patch.dict(os.environ):  # the command sets variables for its children
        assert cli.run(["plan"]) == 2
    line = capsys.readouterr().err.removeprefix("mcvrp: ").rstrip("\n")
    assert line.isprintable()
    assert len(line) == LONGEST
    assert line.startswith(r"of \x1b[2J aaa")
    assert line.endswith("aaa: the remedy")
