"""Tests of a Ray that does not start, answer, or have cores: one error message, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Any
from unittest.mock import Mock

import pytest
import ray

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.support import ray_session as module
from mcvrp.tasks.support.ray_session import ray_session

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed"
NO_NODE = "No node info found matching attributes: '' when trying to resolve node to connect to."


@pytest.fixture(autouse=True)
def init(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Ray's start, which does nothing."""
    init = Mock()
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(module, "cluster_cores", lambda: 1)
    monkeypatch.setattr(module, "_own_servers", list)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return init


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        (None, Exception(SLOW), r"Ray did not start on this machine \(The current node timed out"),
        (None, OSError("AF_UNIX path length cannot exceed 107 bytes: /x"), r"\(AF_UNIX.*set RAY_TMPDIR"),
        (
            "head:1",
            RuntimeError(NO_NODE),
            r"RAY_ADDRESS=head:1 \(No node .*ray start --address=head:1 --num-cpus=0",
        ),
    ],
)
def test_a_ray_that_does_not_start_is_one_sentence(
    address: str | None, error: Exception, message: str, init: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment and the handlers are what they were."""
    monkeypatch.setattr(module, "require_answer", Mock())
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    init.side_effect = error
    before = dict(os.environ)
    with pytest.raises(McvrpError, match=message) as refused, ray_session(1):
        pass
    assert len(str(refused.value)) <= LONGEST
    assert init.call_count == 1
    assert dict(os.environ) == before


def test_a_cluster_that_does_not_answer_is_named(init: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Ray is asked, which tries for minutes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{server.getsockname()[1]}"
        for address in (closed, f"ray://{closed}", "head", "head:first"):
            monkeypatch.setenv("RAY_ADDRESS", address)
            message = f"no Ray cluster answers at RAY_ADDRESS={address}"
            with pytest.raises(McvrpError, match=message), ray_session():
                pass
    assert not init.called


def test_a_cluster_without_cores_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its 0 tasks at once a stage would do nothing and report success."""
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    monkeypatch.setattr(module, "require_answer", Mock())
    monkeypatch.setattr(module, "cluster_cores", lambda: 0)
    message = "the cluster at head:6379 has no cores: start a node"
    with pytest.raises(McvrpError, match=message), ray_session():
        pass


def test_a_session_that_ends_by_an_error_leaves_no_serializer() -> None:
    """On a cluster, where the next session may be, a reference to memory of this machine would be no city."""
    serializers = ray.cloudpickle.CloudPickler.dispatch
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(KeyboardInterrupt))
        stack.enter_context(ray_session(1))
        assert City in serializers
        raise KeyboardInterrupt
    assert City not in serializers


def test_a_sigterm_is_handled_as_before(init: Mock) -> None:
    """Ray's handler ends the process: a run that is cancelled would be on record as crashed."""

    class Cancelled(BaseException):
        pass

    def ours(*_: object) -> None:
        raise Cancelled

    def start(**_: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))

    init.side_effect = start
    before = signal.signal(signal.SIGTERM, ours)
    try:
        with pytest.raises(Cancelled), ray_session(1):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
