"""Ctrl-C and SIGTERM: an orderly stop if it is quick, a hard one if it is not, and nobody left behind."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)

INTERRUPTED = 130
ORDERLY_SECONDS = 3.5  # for the orderly stop; the whole has to fit into 5 s
_PR_SET_CHILD_SUBREAPER = 36


@contextmanager
def stopping_in_time() -> Iterator[None]:
    """Stop within `ORDERLY_SECONDS` of SIGINT or SIGTERM, however busy the main thread is.

    The signal raises KeyboardInterrupt (or what a library that took the signal over raises)
    in the main thread, as usual. A thread that the interpreter wakes for every signal watches
    the time, and ends the process when it is up, or at a second signal. Whichever way the
    context is left, no descendant of this process stays.

    A line is logged once the signal has arrived, and another when the time is up.
    """
    adopt_orphans()
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        while (received := reader.recv(1)) and received[0] not in (signal.SIGINT, signal.SIGTERM):
            pass
        if not received:
            return
        signal.alarm(0)  # Ray's own handler of SIGTERM has the process aborted after 3 s
        logger.info("stopping ...")
        reader.settimeout(ORDERLY_SECONDS)
        with contextlib.suppress(TimeoutError):
            while (received := reader.recv(1)) and received[0] not in (signal.SIGINT, signal.SIGTERM):
                pass
            if not received:
                return
        logger.warning(CONTINUE)
        kill_descendants()
        os._exit(INTERRUPTED)

    previous = signal.signal(signal.SIGTERM, _interrupt)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, name="interrupt", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        kill_descendants()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, previous)
        writer.close()
        watcher.join(1.0)
        reader.close()


CONTINUE = "interrupted: what is finished is kept, the same command continues from there"


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that `kill_descendants` finds it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """Kill every process that this one started, directly or not (Linux; elsewhere groups do it)."""
    for _ in range(3):  # one that forks while we look is found the next time
        pids = descendants(os.getpid())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if not pids:
            return


def descendants(root: int) -> list[int]:
    """Return the running processes below ``root``, nearest first (none where there is no /proc)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # "pid (name) state ppid ...": the name may hold spaces and parentheses
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found[1:]
