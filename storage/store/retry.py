"""Retry of store calls with exponential backoff, until the store has been silent for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mcvrp.storage.store.errors import StoreSilent, StoreUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
SILENCE = 600.0  # seconds without any success until we give up
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds between two tries
# What is called when the store at an address answers again, before anything else is asked of it: leases of
# this process, which another may have taken over meanwhile.
AFTER_OUTAGE: list[tuple[str, Callable[[], None]]] = []


class Probed(Protocol):
    """What is waited for; `Store` is one."""

    @property
    def uri(self) -> str: ...
    def probe(self) -> None: ...


@dataclass
class StoreRetry:
    """Retry of what a silent store has refused, at growing intervals.

    Parameters
    ----------
    store
        The store that is waited for.
    warn
        Hears what we wait for: the log, or whoever started this process.
    silence
        Seconds without any success until we give up.
    """

    store: Probed
    warn: Callable[[str], None] = logger.warning
    silence: float = SILENCE
    _since: float | None = None
    _wait: float | None = None

    def call(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns once the store answers; StoreSilent as in `outlast`."""
        while True:
            try:
                result = work()
            except StoreUnavailable as error:
                self.outlast(error)
            else:
                self.answered()
                return result

    def answered(self) -> None:
        """Take note that the store does what it should."""
        self._since = self._wait = None

    def outlast(self, error: StoreUnavailable) -> None:
        """Return when the store answers again after ``error``.

        Raises
        ------
        StoreSilent
            If nothing has succeeded for ``silence`` seconds.
        LeaseLost
            If a lease that this process holds has been taken over meanwhile.
        """
        began = self._since = time.monotonic() if self._since is None else self._since
        while True:
            self.warn(f"waiting for the store: {error}")
            if time.monotonic() - began > self.silence:
                raise StoreSilent(
                    f"the store has not answered for {self.silence / 60:.0f} minutes ({error}): "
                    "run the same command again once it does, it resumes from there"
                ) from error
            wait = self._wait or _FIRST_WAIT
            time.sleep(wait)
            self._wait = min(2 * wait, _LONGEST_WAIT)
            try:
                self.store.probe()
                for uri, check in list(AFTER_OUTAGE):
                    if uri == self.store.uri:
                        check()
                return
            except StoreUnavailable as again:
                error = again
