"""Store that does not answer a request, in this process only."""

from __future__ import annotations

import errno
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcvrp.storage.store import lease
from mcvrp.storage.store.store import Store, StoreUnavailable
from tests.support.datasets import everything

Request = Callable[[], Any]


@dataclass
class Outage:
    """Outage of stores in local folders; their requests are counted from 1."""

    first: float = math.inf  # request that fails
    length: int = 1  # requests that fail
    lost: bool = False  # whether the first of them is carried out nevertheless
    requests: int = 0

    def begin(self, first: float, *, length: int = 1, lost: bool = False) -> None:
        self.first, self.length, self.lost, self.requests = first, length, lost, 0

    def serve(self, verb: str, path: str, request: Request) -> Any:
        self.requests += 1
        if self.first <= self.requests < self.first + self.length:
            if self.lost and self.requests == self.first:
                request()
            raise OSError(errno.EIO, "no answer")
        return request()


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    outage = Outage()
    serve_all(monkeypatch, outage.serve)
    yield outage
    outage.first = math.inf


def serve_all(patch: pytest.MonkeyPatch, serve: Callable[[str, str, Request], Any]) -> None:
    """Have ``serve`` carry out the requests of all stores, given verb and path."""
    really = Store._request

    def served(self: Store, verb: str, path: str, request: Callable[[str], Any]) -> Any:
        return really(self, verb, path, lambda key: serve(verb, path, lambda: request(key)))

    patch.setattr(Store, "_request", served)


def check_repeated(
    store: Store,
    folder: Path,
    outage: Outage,
    work: Callable[[Store], object],
    *,
    at_least: int,
    exact: str | tuple[str, ...] = "",
    most: int | None = None,
) -> None:
    """Check that ``work`` ends the same if any request of it had no answer, carried out or not.

    It is done in copies of ``store`` in ``folder``, ends with StoreUnavailable, and is repeated; it has to
    make ``at_least`` so many requests, of which ``most`` are tried (None for all). Its result and files are
    those of an undisturbed run; files whose names end with ``exact`` are the same byte for byte, others hold
    times.
    """
    names = count()

    def left(first: float, *, lost: bool = False) -> tuple[object, dict[str, bytes], int]:
        copy = folder / f"copy-{next(names)}"
        shutil.copytree(store.uri, copy)
        outage.begin(first, lost=lost)
        try:
            result = work(Store(str(copy)))
        except StoreUnavailable:
            outage.begin(math.inf)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lease, "TTL_SECONDS", 0.01)  # of an owner that could not end it
                result = work(Store(str(copy)))
        requests, outage.first = outage.requests, math.inf
        files = everything(Store(str(copy)))
        shutil.rmtree(copy)
        return result, files, requests

    result, files, requests = left(math.inf)
    assert requests >= at_least
    for k in range(1, requests + 1, max(1, requests // most) if most else 1):
        for lost in (False, True) if most is None else (bool(k % 2),):
            disturbed, remaining, _ = left(k, lost=lost)
            assert disturbed == result, k
            assert remaining.keys() == files.keys(), k
            assert [
                path for path in files if path.endswith(exact) and remaining[path] != files[path]
            ] == [], k
