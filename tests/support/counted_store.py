"""Requests of stores in local folders, counted as an object store would count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.silent_store import Request, serve_all

_WRITES = {"write", "delete"}


@dataclass
class Requests:
    """Requests of this process by their verb, one per page of a listing, and bytes read."""

    counts: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def serve(self, verb: str, path: str, request: Request) -> Any:
        self.counts[verb] += 1  # also one for a file that does not exist
        answer = request()
        self.counts[verb] += max(0, len(answer) - 1) if isinstance(answer, list) else 0
        self.bytes += len(answer) if isinstance(answer, bytes) else 0
        return answer

    @property
    def reading(self) -> int:
        """Number of requests that read."""
        return sum(count for verb, count in self.counts.items() if verb not in _WRITES)

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """Yield a counter that has the requests of the block by verb once it is left."""
        before, counts = Counter(self.counts), Counter[str]()
        yield counts
        counts.update(self.counts - before)


def count_requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Return the requests of all stores from now on."""
    requests = Requests()
    serve_all(monkeypatch, requests.serve)
    return requests
