"""Requests of stores in local folders, counted as an object store would count them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mcvrp.storage.store import connections
from mcvrp.storage.store.local import LocalFiles
from tests.support.silent_store import Served

_PAGE = 1000  # entries of one answer to a listing


@dataclass
class Reading:
    """Requests that read, one per page of a listing, and the bytes of the files that they returned."""

    requests: int = 0
    bytes: int = 0

    def serve(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        answer = work(*arguments, **named)
        pages = -(-len(answer) // _PAGE) if isinstance(answer, list) else 1
        self.requests += max(1, pages)
        data = answer[0] if isinstance(answer, tuple) else answer
        self.bytes += len(data) if isinstance(data, bytes) else 0
        return answer


def count_reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Return the reading of all stores from now on."""
    reading, methods = Reading(), {"read", "read_tagged", "open", "now"}
    monkeypatch.setattr(
        connections, "_files", lambda uri, probing: Served(LocalFiles(uri), reading.serve, methods)
    )
    return reading
