"""A store that gives no answer for a while, from a request on that a test chooses, in this process alone."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mcvrp.storage.store import connections, retry
from mcvrp.storage.store.local import LocalFiles

_REQUESTS = {"read", "read_tagged", "write", "write_new", "swap", "move", "delete", "now", "open", "probe"}


@dataclass
class Outage:
    """What becomes of the requests to stores in local folders, which are counted from 1.

    Parameters
    ----------
    first, length
        The requests that get no answer.
    lost
        Whether the first of them is done nevertheless.
    """

    first: float = math.inf
    length: int = 2
    lost: bool = False
    requests: int = 0

    def begin(self, first: float, *, length: int = 2, lost: bool = False) -> None:
        """Count anew, and be silent at request ``first``."""
        self.first, self.length, self.lost, self.requests = first, length, lost, 0

    def serve(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.requests += 1
        if self.first <= self.requests < self.first + self.length:
            if self.lost and self.requests == self.first:
                work(*arguments, **named)
            raise OSError(errno.EIO, "no answer")
        return work(*arguments, **named)


class _Silent:
    """Something whose ``methods`` are requests."""

    def __init__(self, inner: Any, outage: Outage, methods: set[str]) -> None:
        self._inner, self._outage, self._methods = inner, outage, methods

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "filesystem":
            return _Silent(value, self._outage, {"get_file_info"})
        if name not in self._methods:
            return value

        def served(*arguments: Any, **named: Any) -> Any:
            made = self._outage.serve(value, *arguments, **named)
            return _Silent(made, self._outage, {"read"}) if name == "open" else made

        return served


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    """An outage of all local stores of this process, which nobody waits long for."""
    outage = Outage()
    monkeypatch.setattr(connections, "_CONNECTIONS", {})
    monkeypatch.setattr(
        connections, "_files", lambda uri, probing: _Silent(LocalFiles(uri), outage, _REQUESTS)
    )
    monkeypatch.setattr(retry, "_FIRST_WAIT", 0.001)
    yield outage
    outage.first = math.inf
