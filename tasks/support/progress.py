"""Progress of long tasks: a bar with rate and ETA on a terminal, otherwise log lines, and for listeners."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcvrp.tasks.support.text import rough

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

logger = logging.getLogger(__name__)

INTERRUPTED = "Interrupted, what is finished is kept, start again to resume"  # of a run
LINE_SECONDS = 10.0  # between two log lines
_CONSOLE_SECONDS = 0.2  # between two updates of the bar


@dataclass(frozen=True)
class ProgressReport:
    """Progress of a task: counts in ``unit``, ``rate`` per second, ``eta`` in seconds."""

    label: str
    unit: str
    done: int
    total: int
    rate: float
    eta: float
    note: str

    @property
    def share(self) -> float:
        """Part that is done, 0 to 1."""
        return self.done / self.total if self.total else 1.0

    def __str__(self) -> str:
        counted = f"{self.label}: {self.done:,}/{self.total:,} {self.unit} ({100 * self.share:.0f} %)"
        return ", ".join([counted, *self.pace])

    @property
    def pace(self) -> list[str]:
        """Rate, remaining time and note, if there are any."""
        number = f"{self.rate:,.0f}" if self.rate >= 100 else f"{self.rate:.3g}"
        rate = f"{number} {self.unit}/s" if self.rate > 0 and self.unit != "s" else ""
        left = f"{duration(self.eta)} left" if math.isfinite(self.eta) and self.done < self.total else ""
        return [text for text in (rate, left, self.note) if text]


Listener = Callable[[ProgressReport], None]
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass the reports made in this context to ``listener``, at most a few per second."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


@dataclass
class Progress:
    """Context manager that reports the progress of a task on stderr."""

    label: str  # name of the task
    total: int  # amount of work, in ``unit``
    unit: str
    done: int = 0  # at first, that of an earlier run, which is not part of the rate
    note: str = ""
    left: float | None = None  # work left, if the rest takes more or less time per ``unit``
    _began: tuple[float, int, float] = field(default=(0.0, 0, 0.0), init=False)  # when, done, left
    _initial: int = field(default=0, init=False)
    _reported: float = field(default=0.0, init=False)
    _logged: int = field(default=-1, init=False)
    _bar: RichProgress | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.begin()

    def __enter__(self) -> Progress:
        self._reported = time.monotonic()
        self._initial = self.done
        self.begin()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress as RichProgress, TextColumn

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
            rest = TextColumn("{task.fields[rest]}")
            self._bar = RichProgress(*columns, rest, console=Console(stderr=True))
            self._bar.add_task(self.label, total=self.total, completed=self.done, rest="")
            self._bar.start()
        self._publish(line=False)
        return self

    def __exit__(self, *_: object) -> None:
        ended = self.done > self._initial and self.unit != "s"  # the end of a time limit is no news
        self._publish(line=ended and self.done != self._logged)
        if self._bar:
            self._bar.stop()

    def advance(self, count: int = 1, note: str | None = None) -> None:
        """Add ``count`` to the amount done."""
        self.update(self.done + count, note)

    def update(self, done: int, note: str | None = None) -> None:
        """Set the total amount done, and the note."""
        self.done = done
        self.note = self.note if note is None else note
        now = time.monotonic()
        if now - self._reported >= (_CONSOLE_SECONDS if self._bar else LINE_SECONDS):
            self._reported = now
            self._publish(line=True)

    def begin(self) -> None:
        """Start measuring the rate now, without the preparation before."""
        self._began = time.monotonic(), self.done, self._left

    @property
    def _left(self) -> float:
        return float(self.total - self.done) if self.left is None else self.left

    def report(self) -> ProgressReport:
        began, done, left = self._began
        seconds, worked = time.monotonic() - began, left - self._left
        rate = max(0.0, (self.done - done) / seconds) if seconds > 0 else 0.0
        eta = self._left / worked * seconds if worked > 0 else float("inf")
        return ProgressReport(self.label, self.unit, self.done, self.total, rate, eta, self.note)

    def _publish(self, *, line: bool) -> None:
        """Show the current progress on the bar, otherwise log it if ``line``, and pass it to listeners."""
        report = self.report()
        if self._bar:
            rest = "  ".join(report.pace)
            self._bar.update(self._bar.task_ids[0], completed=self.done, total=self.total, rest=rest)
        elif line:
            self._logged = self.done
            logger.info(str(report))
        for listener in _listeners.get():
            listener(report)


def duration(seconds: float) -> str:
    """Return ``seconds`` as text: "42 s", "3 min 10 s", "5.7 days"."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:.1f} days" if days < 100 else f"{rough(days)} days"
