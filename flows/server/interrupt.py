"""Ctrl-C and SIGTERM: an orderly stop if it is quick, a hard one if it is not, and nobody left behind."""

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
CONTINUE = "interrupted: what is finished is kept, the same command continues from there"
ORDERLY_SECONDS = 3.5  # for the orderly stop; the whole has to fit into 5 s


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


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
