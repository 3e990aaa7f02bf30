"""Resources that are created or started once for all concurrent test processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from filelock import FileLock

_place: list[Path] = []


@pytest.fixture(scope="session", autouse=True)
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folder of `made_once`, from the first test to the last."""
    own = tmp_path_factory.getbasetemp()
    _place.append(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)
    yield
    _place.clear()


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder ``name``, which ``make`` has filled in the first process that asked."""
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
    told, users = _place[0] / name, _place[0] / f"{name}.users"
    user = users / str(os.getpid())
    with ExitStack() as ours:
        with FileLock(f"{told}.lock"):
            users.mkdir(exist_ok=True)
            user.touch()
            first = not told.exists()
            if first:
                told.write_text(ours.enter_context(serve()))
            place = told.read_text()
        try:
            yield place
        finally:
            user.unlink()
            if first:
                with FileLock(f"{told}.lock"):
                    told.unlink()  # who comes now starts another
                    left = [int(path.name) for path in users.iterdir()]
                while any(Path(f"/proc/{process}").exists() for process in left):
                    time.sleep(0.2)
                    left = [process for process in left if (users / str(process)).exists()]
