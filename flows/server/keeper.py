"""Supervision of a child process that should not end by itself: it is restarted when it has ended."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from mcvrp.flows.server.records import Records
from mcvrp.model.errors import McvrpError

logger = logging.getLogger(__name__)

_LONG_SECONDS = 60.0  # a process that ran this long is restarted with a fresh count of attempts
_LOOK_SECONDS = 0.2
_ATTEMPTS = 5  # consecutive restarts of a process that ends sooner


@dataclass
class Keeper:
    what: str  # the process in messages
    log: IO[str]  # that the process writes to
    start: Callable[[], subprocess.Popen[str]]
    stop: Callable[[subprocess.Popen[str]], None]  # it and everything that it has left behind
    # Wait until the process serves; McvrpError if it does not.
    ready: Callable[[subprocess.Popen[str]], None] = lambda process: None
    _attempts: int = 0
    _over: bool = False

    def __enter__(self) -> Keeper:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop the process permanently, even while another thread is restarting it."""
        if not self._over:
            self._over = True
            self.stop(self._process)

    @property
    def ended(self) -> bool:
        """True if the process has ended and has to be restarted."""
        return not self._over and self._process.poll() is not None

    def look(self) -> None:
        """Restart the process if it has ended; McvrpError if it keeps ending shortly after each restart."""
        if not self.ended:
            return
        lifetime = time.monotonic() - self._began
        self._attempts = 1 if lifetime > _LONG_SECONDS else self._attempts + 1
        if self._attempts > _ATTEMPTS:
            # the log of a command's own server is an unnamed temporary file, deleted with the command
            named = isinstance(self.log.name, str)
            hint = f"look at its log, {self.log.name}" if named else "see whether memory or the disk is full"
            raise McvrpError(f"the {self.what} ends again and again: {hint}")
        code = self._process.returncode
        logger.warning("the %s ended (exit code %d), restarting it", self.what, code)
        self.stop(self._process)  # its children outlive it
        with contextlib.suppress(McvrpError):  # counted by the next look, which finds it ended
            self._start()

    def _start(self) -> None:
        self._began, self._process = time.monotonic(), self.start()
        try:
            self.ready(self._process)
        except BaseException:  # KeyboardInterrupt too: no caller has a reference to the process yet
            self.stop(self._process)
            raise
        if self._over:  # `end` ran in the main thread while the new process was starting
            self.stop(self._process)


@contextmanager
def kept_running(keeper: Keeper, records: Records) -> Iterator[None]:
    """Keep the Prefect server of ``keeper`` running while the context lasts; note outages in ``records``.

    If it cannot be restarted, stages run without a record; McvrpError if it does not start at all.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if keeper.ended:
                records.outage = True  # before the keeper's log line: one line per outage is enough
            try:
                keeper.look()
            except McvrpError as error:
                logger.warning("the work continues without a record: %s", error)
                records.given_up.set()
                return

    # The server dies with the thread that started it (PR_SET_PDEATHSIG), so this one lasts as long as it.
    watcher = threading.Thread(target=watch, name="prefect server", daemon=True)
    with keeper:
        watcher.start()
        try:
            yield
        finally:
            keeper.end()  # first: the watcher may be waiting for a server that is starting
            over.set()
            watcher.join()
