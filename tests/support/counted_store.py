"""Requests of stores in local folders, counted as an object store would count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.silent_store import READS, serve_all

_PAGE = 1000  # entries of one answer to a listing


@dataclass
class Requests:
    """Requests of this process by the name of the operation, one per page of a listing, and bytes read."""

    counts: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def serve(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        answer = work(*arguments, **named)
        if isinstance(answer, Iterator):
            answer = [*answer]
        pages = -(-len(answer) // _PAGE) if isinstance(answer, list) else 1
        self.counts[work.__name__] += max(1, pages)
        self.bytes += len(answer) if isinstance(answer, bytes) else 0
        return answer

    @property
    def reading(self) -> int:
        """Number of requests that read."""
        return sum(count for name, count in self.counts.items() if name in READS)

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """Yield a counter that has the requests of the block by operation once it is left."""
        before, counts = Counter(self.counts), Counter[str]()
        yield counts
        counts.update(self.counts - before)


def count_requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Return the requests of all stores from now on."""
    requests = Requests()
    serve_all(monkeypatch, requests.serve)
    return requests
