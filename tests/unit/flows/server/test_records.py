"""Tests of the records of runs: adding, verifying, and sending states again."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Failed

from mcvrp.flows.server.records import EndedRun, Records, is_outage
from mcvrp.model.errors import IncompleteError

FLOW, TASK = uuid4(), uuid4()


class Server:
    """A Prefect server by the states of the runs that it knows."""

    def __init__(self, states: dict[UUID, StateType]) -> None:
        self.states = states
        self.read_flow_runs = self.read_task_runs = self._read
        self.set_flow_run_state = self.set_task_run_state = self._set

    def _read(self, **_: object) -> list[Any]:
        return [SimpleNamespace(id=id, state_type=state) for id, state in self.states.items()]

    def _set(self, id: UUID, state: State[Any], *, force: bool) -> None:
        if id not in self.states:
            raise ObjectNotFound(http_exc=httpx.HTTPError("404"))
        self.states[id] = state.type


def use(monkeypatch: pytest.MonkeyPatch, server: object) -> None:
    monkeypatch.setattr("mcvrp.flows.server.records.get_client", lambda **_: nullcontext(server))


def ended(**options: Any) -> Records:
    """Records of a completed flow run and of a task run that failed."""
    flow = EndedRun("flow", "label d", StateType.COMPLETED)
    return Records({FLOW: flow, TASK: EndedRun("task", "solve", StateType.FAILED)}, **options)


def test_runs_are_added_with_their_states() -> None:
    """A state that a function returned is that of its run, any other value means that it is complete."""
    flow, task = FlowRun(flow_id=uuid4(), name="f"), TaskRun(task_key="t", dynamic_key="0", name="t")
    records = Records()
    records.add(flow, "a result")
    records.add(task, Failed())
    assert records.runs == {
        flow.id: EndedRun("flow", "f", StateType.COMPLETED),
        task.id: EndedRun("task", "t", StateType.FAILED),
    }
    records.add(flow, Failed())
    assert records.runs[flow.id].state == StateType.FAILED


def test_states_that_the_server_missed_are_sent_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After an outage, as Prefect's own events are lost; a run that the server never knew is a warning."""
    monkeypatch.setattr(logging.getLogger("mcvrp"), "propagate", True)
    server = Server({FLOW: StateType.RUNNING, TASK: StateType.RUNNING})
    use(monkeypatch, server)
    ended(outage=True).verify(seconds=0)
    assert server.states == {FLOW: StateType.COMPLETED, TASK: StateType.FAILED}
    assert not caplog.messages
    use(monkeypatch, Server({FLOW: StateType.COMPLETED}))
    ended(outage=True).verify(seconds=0)
    assert caplog.messages == ["records missing in Prefect, whose server was away: task 'solve'"]


def test_a_server_that_is_given_up_is_asked_nothing() -> None:
    records = ended(outage=True)
    records.given_up.set()
    records.verify()


def test_work_is_done_without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Mock(side_effect=httpx.ConnectError("refused"))
    monkeypatch.setattr("mcvrp.flows.server.records.get_client", refused)
    records = ended()
    records.verify(seconds=0)
    assert records.outage


def test_a_record_that_never_arrives_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Server({FLOW: StateType.COMPLETED}))
    with pytest.raises(IncompleteError, match=r"1 of 2 runs .* not on record .* \(task 'solve'\)"):
        ended().verify(seconds=0)


def test_an_outage_is_known_by_its_cause() -> None:
    """Prefect wraps the error of the first request of a client; no other error is one."""
    error = RuntimeError("Failed to reach API")
    assert not is_outage(error)
    error.__cause__ = httpx.ConnectError("refused")
    assert is_outage(error)
    assert is_outage(httpx.ReadTimeout("slow"))
