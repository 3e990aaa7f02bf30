"""Requests of stores in local folders, counted as an object store would count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mcvrp.storage.store import connections
from mcvrp.storage.store.local import LocalFiles

_PAGE = 1000  # entries of one answer to a listing


@dataclass
class Reading:
    """Requests that read, one per page of a listing, and the bytes of the files that they returned."""

    requests: int = 0
    bytes: int = 0

    def count(self, answer: Any) -> Any:
        pages = -(-len(answer) // _PAGE) if isinstance(answer, list) else 1
        self.requests += max(1, pages)
        data = answer[0] if isinstance(answer, tuple) else answer
        self.bytes += len(data) if isinstance(data, bytes) else 0
        return answer


class _Counted:
    """Wrapper of a store, its file system or a file, whose ``methods`` are requests."""

    def __init__(self, inner: Any, reading: Reading, methods: set[str]) -> None:
        self._inner, self._reading, self._methods = inner, reading, methods

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "filesystem":
            return _Counted(value, self._reading, {"get_file_info"})
        if name not in self._methods:
            return value

        def counted(*arguments: Any, **named: Any) -> Any:
            answer = self._reading.count(value(*arguments, **named))
            return _Counted(answer, self._reading, {"read"}) if name == "open" else answer

        return counted


def count_reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Return the reading of all stores from now on."""
    reading, methods = Reading(), {"read", "read_tagged", "open", "now"}
    monkeypatch.setattr(
        connections, "_files", lambda uri, probing: _Counted(LocalFiles(uri), reading, methods)
    )
    return reading
