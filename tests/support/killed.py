"""Requests of stores, intercepted; a process that is killed during one of its writes."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcvrp.storage.store import lease
from mcvrp.storage.store.store import Store

Request = Callable[[], Any]


def serve_all(patch: pytest.MonkeyPatch, serve: Callable[[str, str, Request], Any]) -> None:
    """Have ``serve`` carry out the requests of all stores, given verb and path."""
    really = Store._request

    def served(self: Store, verb: str, path: str, request: Callable[[str], Any]) -> Any:
        return really(self, verb, path, lambda key: serve(verb, path, lambda: request(key)))

    patch.setattr(Store, "_request", served)


class Killed(BaseException):
    """End of the process: nothing catches this, and no clean-up reaches the store."""


def killed_at_each_write(
    store: Store, folder: Path, work: Callable[[Store], object], *, at_least: int
) -> Iterator[tuple[Store, bool]]:
    """Yield a copy of ``store`` for each write of ``work`` (also of leases), which was killed during it.

    Files are then written in part to a temporary name, folders deleted in part; True is undisturbed.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)  # no power is cut here, and waiting takes half of the time
        patch.setattr(lease, "TTL_SECONDS", 0.01)  # the owner of any lease was killed
        for k in count(1):
            copy = Store(str(folder / str(k)))
            shutil.copytree(store.uri, copy.uri)
            done = False
            with contextlib.suppress(Killed), _killed(k, Path(copy.uri)):
                work(copy)
                done = True
            yield copy, done
            if done:
                assert k > at_least
                return
            shutil.rmtree(copy.uri)


@contextlib.contextmanager
def _killed(k: int, folder: Path) -> Iterator[None]:
    left = k

    def serve(verb: str, path: str, request: Request) -> Any:
        nonlocal left
        if left > 0 and verb in ("write", "delete"):
            left -= 1
            if left == 0:
                _leave_half(folder / path, verb)
        if left <= 0:
            raise Killed
        return request()

    with pytest.MonkeyPatch.context() as patch:
        serve_all(patch, serve)
        patch.setattr(lease, "TTL_SECONDS", 60.0)  # its keeper makes no request
        # the keeper of a process that was killed, too, has nothing to say
        patch.setattr(threading, "excepthook", lambda _: None)
        yield


def _leave_half(target: Path, verb: str) -> None:
    if verb == "delete" and target.is_dir():
        files = sorted(path for path in target.rglob("*") if path.is_file())
        for file in files[: len(files) // 2]:
            file.unlink()
    elif verb == "write":
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_name(f"{target.name}#1").write_bytes(b"half")
