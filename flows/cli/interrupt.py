"""Ctrl-C and SIGTERM raise KeyboardInterrupt; no child process survives the command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from mcvrp.tasks.support.processes import adopt_orphans, kill_descendants

INTERRUPTED = 130
CONTINUE = "interrupted: what is finished is kept, the same command resumes from there"


@contextmanager
def stopping() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C; however the context is left, no descendant of this process survives."""
    adopt_orphans()
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        yield
    finally:
        kill_descendants()
        signal.signal(signal.SIGTERM, previous)
