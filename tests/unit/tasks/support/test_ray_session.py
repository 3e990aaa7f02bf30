"""Tests of a Ray that does not start: more attempts, no processes left, one error message."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import ray

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.tasks.support import ray_session as module
from mcvrp.tasks.support.processes import descendants
from mcvrp.tasks.support.ray_session import ray_session

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed"


class Busy:
    """A machine on which Ray fails to start ``failures`` times, and leaves a process each time."""

    def __init__(self, failures: int) -> None:
        self.failures, self.attempts = failures, 0
        self.leftover: list[subprocess.Popen[bytes]] = []

    def init(self, **_: object) -> None:
        self.attempts += 1
        if self.attempts <= self.failures:
            self.leftover.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
            raise Exception(SLOW)


@pytest.fixture
def ours() -> Iterator[subprocess.Popen[bytes]]:
    """A process that was started before, and must not be killed."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize("failures", [1, 2])
def test_ray_is_started_again(
    monkeypatch: pytest.MonkeyPatch, ours: subprocess.Popen[bytes], failures: int
) -> None:
    """Processes of earlier attempts are killed, and no others."""
    busy = Busy(failures)
    monkeypatch.setattr(ray, "init", busy.init)
    with ray_session(1) as workers:
        assert workers == 1
    assert busy.attempts == failures + 1
    assert [process.wait(30) for process in busy.leftover] == [-9] * failures
    assert ours.pid in descendants(os.getpid())


def test_a_ray_that_never_starts_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Ray's message and the remedy."""
    busy = Busy(failures=99)
    monkeypatch.setattr(ray, "init", busy.init)
    with pytest.raises(McvrpError) as caught, ray_session(1):
        pass
    assert busy.attempts == 3
    assert [process.wait(30) for process in busy.leftover] == [-9] * 3
    sentence = str(caught.value)
    assert sentence.startswith("Ray did not start on this machine in 3 attempts (The current node timed out")
    assert sentence.endswith("run the command again when the machine is less busy, finished work is kept")
    assert len(sentence) <= LONGEST
