"""Tests of a Ray that does not start or has no cores: attempts, no processes left, one error message."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import ray

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.support import ray_cluster, ray_session as module
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


@pytest.mark.parametrize("failures", [1, 2, 99])
def test_ray_is_started_again_or_given_up(
    monkeypatch: pytest.MonkeyPatch, ours: subprocess.Popen[bytes], failures: int
) -> None:
    """Processes of earlier attempts are killed, and no others."""
    busy = Busy(failures)
    monkeypatch.setattr(ray, "init", busy.init)
    message = r"Ray did not start on this machine in 3 attempts \(The current node timed out.* less busy"
    refused = pytest.raises(McvrpError, match=message) if failures > 2 else contextlib.nullcontext()
    with refused as caught, ray_session(1) as workers:
        assert workers == 1
    assert busy.attempts == min(failures + 1, 3)
    assert [process.wait(30) for process in busy.leftover] == [-9] * min(failures, 3)
    assert ours.pid in descendants(os.getpid())
    assert not caught or len(str(caught.value)) <= LONGEST


@pytest.mark.parametrize("variable", ["RAY_TMPDIR", "TMPDIR"])
@pytest.mark.parametrize("folder", ["x" * 40, "file"])
def test_an_error_of_the_environment_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, folder: str
) -> None:
    """It names the variable of Ray's folder; Ray itself finds what is wrong with the folder."""
    started = Mock(wraps=ray.init)
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)  # Ray takes relative paths, too, and those of pytest are long
    monkeypatch.setattr(ray, "init", started)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv(variable, folder)
    wrong = r"is too long for the paths of Ray's sockets: set it to a path of at most 39 characters"
    if folder == "file":
        wrong = r"\(Not a directory\): correct that, or set RAY_TMPDIR to another folder"
    with pytest.raises(McvrpError, match=f"{variable}={folder} {wrong}"), ray_session(1):
        pass
    assert started.call_count == (folder == "file")


def test_a_cluster_is_not_joined_from_a_long_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second attempt, whatever the patience; a client needs no node, and so no sockets."""
    attempts = Mock(side_effect=McvrpError("no Ray cluster answers"))
    monkeypatch.setattr(ray_cluster, "require_answer", attempts)
    monkeypatch.setattr(tempfile, "tempdir", "x" * 40)
    monkeypatch.setenv("TMPDIR", "x" * 40)
    for address, message in (("h:1", "TMPDIR=x* is too long"), ("ray://h:1", "no Ray cluster")):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(McvrpError, match=message), ray_session(1):
            pass
    assert attempts.call_count == 1


def test_a_session_that_ends_by_an_error_leaves_no_serializer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster, where the next session may be, a reference to memory of this machine would be no city."""
    monkeypatch.setattr(ray, "init", Busy(0).init)
    serializers = ray.cloudpickle.CloudPickler.dispatch
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(KeyboardInterrupt))
        stack.enter_context(ray_session(1))
        assert City in serializers
        raise KeyboardInterrupt
    assert City not in serializers


@pytest.mark.parametrize(("seconds", "cores"), [(60.0, 4), (0.0, 0)])
def test_a_cluster_without_cores_is_waited_for_or_refused(
    monkeypatch: pytest.MonkeyPatch, seconds: float, cores: int
) -> None:
    """With its 0 tasks at once a stage would do nothing and report success."""
    seen = iter([0, 0])
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    monkeypatch.setattr(module, "join_cluster", lambda *_, **__: None)
    monkeypatch.setattr(module, "_cluster_cores", lambda: next(seen, cores))
    monkeypatch.setattr(module, "_CORES_SECONDS", seconds)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    message = "the cluster at head:6379 has no cores: start a node"
    refused = contextlib.nullcontext() if cores else pytest.raises(McvrpError, match=message)
    with refused, ray_session() as workers:
        assert workers == cores


def test_a_sigterm_while_ray_starts_raises_what_the_handler_before_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray's handler ends the process: a run that is cancelled then would be on record as crashed."""

    class Cancelled(BaseException):
        pass

    def ours(*_: object) -> None:
        raise Cancelled

    def start(*_: object, **__: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(module, "_start", start)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = signal.signal(signal.SIGTERM, ours)
    try:
        with pytest.raises(Cancelled), ray_session(1):
            pytest.fail("it has not started")
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
