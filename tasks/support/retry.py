"""Retry of store calls with exponential backoff, until the store has been silent for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mcvrp.model.errors import IncompleteError
from mcvrp.storage.store.store import Store, StoreUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")
SILENCE = 600.0  # seconds without any success until we give up
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds between two tries


@dataclass
class StoreRetry:
    """Retry of what a silent store has refused, at growing intervals.

    Parameters
    ----------
    store
        The store that is waited for.
    warn
        Hears what we wait for: the log, or whoever started this process.
    """

    store: Store
    warn: Callable[[str], None] = logger.warning
    _since: float | None = None
    _wait: float = _FIRST_WAIT

    def call(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns once the store answers; IncompleteError as in `outlast`."""
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
        self._since, self._wait = None, _FIRST_WAIT

    def outlast(self, error: StoreUnavailable) -> None:
        """Return when the store takes bytes again after ``error``.

        Raises
        ------
        IncompleteError
            If nothing has succeeded for `SILENCE` seconds.
        """
        began = self._since = time.monotonic() if self._since is None else self._since
        while True:
            self.warn(f"waiting for the store: {error}")
            if time.monotonic() - began > SILENCE:
                raise IncompleteError(
                    f"the store has not answered for {SILENCE / 60:.0f} minutes ({error}): "
                    "run the same command again once it does, it goes on from there"
                ) from error
            time.sleep(self._wait)
            self._wait = min(2 * self._wait, _LONGEST_WAIT)
            try:
                Store.open(self.store.uri)
                return
            except StoreUnavailable as again:
                error = again
