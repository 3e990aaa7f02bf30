"""Members of a day's search as forks of one warm process that has imported torch: for tests of many days."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe

import pytest

from mcvrp.tasks.solve import member
from mcvrp.tasks.support.processes import CHILD_ENVIRONMENT

_FORKS = multiprocessing.get_context("forkserver")
_PRELOAD = [
    __name__,
    *(f"mcvrp.tasks.solvers.{name}" for name in ("devices", "fm_mcvrp", "hgs", "local_search")),
]


class ForkedChild:
    """`mcvrp.tasks.support.processes.Child` of `mcvrp.tasks.solve.member`."""

    def __init__(self, module: str) -> None:
        assert module == member.__name__
        self.connection, theirs = Pipe()
        with theirs:
            environment = dict(os.environ) | CHILD_ENVIRONMENT
            self._process = _FORKS.Process(target=_member, args=(theirs, environment), daemon=True)
            self._process.start()

    def stop(self, *, grace: float) -> None:
        self._process.kill()
        self._process.join()

    def death(self) -> str:
        self._process.join(1.0)
        return f"ended with exit code {self._process.exitcode}"


def _member(connection: Connection, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [member.__name__, str(os.dup(connection.fileno()))]
    member.main()


@pytest.fixture(scope="module")
def forked_members() -> Iterator[None]:
    """Members begin at once: what a process of Python's own needs to import torch is no part of the tests."""
    _FORKS.set_forkserver_preload(_PRELOAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcvrp.tasks.solve.portfolio.Child", ForkedChild)
        yield
