"""Servers and folders that are made once for all test processes, running processes, and waiting for them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NoReturn, TypeVar

import psutil
import pytest
from filelock import FileLock

from mcvrp.tasks.support.processes import below

T = TypeVar("T")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is behind no proxy
_place: list[Path] = []


def unavailable(reason: str) -> NoReturn:
    """Skip the test for want of a program or a right; fail it in CI, which has them all."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def until(what: str, seconds: float, look: Callable[[], T | None], pause: float = 0.2) -> T:
    """Return what ``look`` returns as soon as it is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (result := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
    return result


def running(word: str, root: int | None = None) -> list[psutil.Process]:
    """Return the descendants of process ``root`` (default: this one) with ``word`` on their command line."""

    def named(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # ended since it was listed
            return word in process.cmdline()
        return False

    return [process for process in below(root or os.getpid()) if named(process)]


@pytest.fixture(scope="session", autouse=True)
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folder of `made_once`, from the first test to the last."""
    own = tmp_path_factory.getbasetemp()
    _place.append(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)
    yield
    _place.clear()


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder ``name``, which ``make`` fills in the first process."""
    folder = _place[0] / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            half = folder.with_suffix(".half")
            half.mkdir()
            make(half)
            half.rename(folder)
    return folder


@contextlib.contextmanager
def served_once(name: str, serve: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """Yield the address of a server that the first process starts with ``serve`` and stops last."""
    address, users = _place[0] / name, _place[0] / f"{name}.users"
    with ExitStack() as ours:
        with FileLock(f"{address}.lock"):
            first = not address.exists()
            if first:
                address.write_text(ours.enter_context(serve()))
            served = address.read_text()
            # The system releases it for a process that dies, and a child does not inherit it
            user = ours.enter_context(users.open("a+"))
            fcntl.lockf(user, fcntl.LOCK_SH)
        try:
            yield served
        finally:
            if first:
                with FileLock(f"{address}.lock"):
                    address.unlink()  # who comes now starts another
                    users.unlink()
                fcntl.lockf(user, fcntl.LOCK_EX)  # the others have left
