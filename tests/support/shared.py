"""What is made once for all test processes that run at the same time, and read by all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

_place: list[Path] = []


@pytest.fixture(scope="session", autouse=True)
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where `made_once` makes things, from the first test to the last."""
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
