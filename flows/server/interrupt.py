"""Ctrl-C and SIGTERM: an orderly stop, or a hard one if that takes too long; no child process survives."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mcvrp.tasks.support.processes import adopt_orphans, kill_descendants

logger = logging.getLogger(__name__)

INTERRUPTED = 130
explained = threading.Event()  # set once a stopping command has logged what is kept
CONTINUE = "interrupted: what is finished is kept, the same command resumes from there"
ORDERLY_SECONDS = 3.5  # for the orderly stop, of 5 s in all


@contextmanager
def stopping_in_time() -> Iterator[None]:
    """Stop within `ORDERLY_SECONDS` of SIGINT or SIGTERM, however busy the main thread is.

    The signal raises KeyboardInterrupt in the main thread, or what a library that handles the signal raises.
    A thread that the interpreter wakes for every signal logs the stop, and ends the process after that time
    or at a second signal. However the context is left, no descendant of this process survives.
    """
    adopt_orphans()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    # a signal handler in Python would wait for the main thread, which may be in native code
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader,), name="interrupt", daemon=True)
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


@contextmanager
def first_signal_raises() -> Iterator[None]:
    """Within `stopping_in_time`: a signal only raises KeyboardInterrupt, and its result may still be written.

    A later signal ends the process as usual.
    """
    watched = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(watched)


def _watch(reader: socket.socket) -> None:
    """End this process `ORDERLY_SECONDS` after a signal that ``reader`` receives, or at the next one."""
    if not _signalled(reader):
        return
    signal.alarm(0)  # Ray's handler of SIGTERM aborts the process after 3 s
    logger.info("stopping ...")
    reader.settimeout(ORDERLY_SECONDS)
    with contextlib.suppress(TimeoutError):
        if not _signalled(reader):
            return
    if not explained.is_set():
        logger.warning(CONTINUE)
    kill_descendants()
    os._exit(INTERRUPTED)  # sys.exit would end this thread alone


def _signalled(reader: socket.socket) -> bool:
    """Wait for SIGINT or SIGTERM; return False if the context has ended before."""
    while (received := reader.recv(1)) and received[0] not in (signal.SIGINT, signal.SIGTERM):
        pass
    return bool(received)
