"""Retry of store calls with exponential backoff, until the store has been silent for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from mcvrp.storage.store.errors import StoreSilent, StoreUnavailable

if TYPE_CHECKING:
    from mcvrp.storage.store.store import Store

logger = logging.getLogger(__name__)

T = TypeVar("T")
SILENCE = 600.0  # seconds without a successful request, after which we give up
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds between two tries
# By address of a store, called when it answers again and before any other request: leases of this process,
# which another process may have taken over meanwhile.
AFTER_OUTAGE: list[tuple[str, Callable[[], None]]] = []


@dataclass
class StoreRetry:
    store: Store
    warn: Callable[[str], None] = logger.warning  # called with a message for each wait
    silence: float = SILENCE  # seconds without a successful request, after which we give up
    _since: float | None = None
    _wait: float | None = None

    def call(self, work: Callable[[], T]) -> T:
        """Return the result of ``work`` once the store answers; raises as `outlast` does."""
        while True:
            try:
                result = work()
            except StoreUnavailable as error:
                self.outlast(error)
            else:
                self.answered()
                return result

    def answered(self) -> None:
        """Reset the waiting time after a successful request."""
        self._since = self._wait = None

    def outlast(self, error: StoreUnavailable) -> None:
        """Wait until the store answers again after ``error``.

        StoreSilent if no request has succeeded for ``silence`` seconds, LeaseLost if a lease of this process
        has been taken over meanwhile.
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
