"""Tests of records of runs, and of stages during an outage of the Prefect server: work continues."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import httpx
import pytest
from prefect import Flow, flow_engine
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Failed
from prefect.workers import process

from mcvrp.flows.server import stage
from mcvrp.flows.server.prefect_internals import lost_slots_tolerated, no_flow_for_hooks
from mcvrp.flows.server.records import EndedRun, Records, is_outage
from mcvrp.model.errors import IncompleteError, McvrpError

ENGINE: Any = flow_engine
PROCESS: Any = process


class Engine:
    """Prefect's engine with a server that is away before or after the function of the flow runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, before: int = 0, after: bool = False) -> None:
        self.before, self.after = before, after
        monkeypatch.setattr(Flow, "__call__", lambda flow, *args, **kwargs: self.run(flow, *args, **kwargs))
        monkeypatch.setattr(
            stage, "run_flow", lambda flow, *, flow_run, **_: self.run(flow, **flow_run.parameters)
        )
        monkeypatch.setattr(stage, "PAUSE_SECONDS", 0.0)

    def run(self, flow: Flow[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.before:
            self.before -= 1
            raise httpx.ConnectError("refused")
        result: Any = flow.fn(*args, **kwargs)
        if self.after:
            raise httpx.ReadTimeout("slow")
        return result


CALLS: list[int] = []  # arguments of the calls of `twice`


@stage.stage("twice", "twice", timeout=60)
def twice(n: int) -> int:
    CALLS.append(n)
    return 2 * n


@pytest.fixture(autouse=True)
def calls() -> list[int]:
    CALLS.clear()
    return CALLS


@pytest.mark.parametrize("outage", [{"before": 3}, {"after": True}], ids=["before", "after"])
def test_a_stage_runs_once_through_an_outage(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    calls: list[int],
    outage: dict[str, Any],
) -> None:
    """It waits for the server before it begins, and keeps its result afterwards; two stages, one warning."""
    monkeypatch.setattr(logging.getLogger("mcvrp"), "propagate", True)
    engine, records = Engine(monkeypatch, **outage), Records()
    assert twice.recorded_in(records)(2) == 4
    engine.before = outage.get("before", 0)
    assert twice.recorded_in(records)(3) == 6
    assert calls == [2, 3]
    assert records.outage
    assert [line.startswith("the Prefect server does not answer") for line in caplog.messages] == [True]


def test_a_deployed_run_goes_through_an_outage(monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    Engine(monkeypatch, before=1, after=True)
    twice.run_deployed(FlowRun(flow_id=uuid4(), parameters={"n": 2}), Records())
    assert calls == [2]


def test_a_stage_runs_without_a_record_in_the_end(monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    engine, records = Engine(monkeypatch, before=10**6), Records()
    monkeypatch.setattr(stage, "BEGIN_SECONDS", -1.0)
    assert twice.recorded_in(records)(2) == 4
    assert records.given_up.is_set()
    monkeypatch.setattr(stage, "BEGIN_SECONDS", 1e9)
    assert twice.recorded_in(records)(3) == 6
    assert engine.before == 10**6 - 2
    assert calls == [2, 3]


def test_an_error_of_the_work_is_raised_in_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the request that was to report it."""

    def fails() -> None:
        raise McvrpError("bad input")

    Engine(monkeypatch, after=True)
    with pytest.raises(McvrpError, match="bad input"):
        stage.stage("fails", "fails", timeout=60)(fails)()


def test_another_error_of_the_engine_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flow, "__call__", Mock(side_effect=KeyError("a bug")))
    with pytest.raises(KeyError):
        twice(2)


def test_a_lost_slot_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect would end it: a server that was away for minutes has forgotten the slot."""
    strict: list[bool] = []
    monkeypatch.setattr(
        flow_engine,
        "maintain_concurrency_lease",
        lambda *_, raise_on_lease_renewal_failure: strict.append(raise_on_lease_renewal_failure),
    )
    before = ENGINE.maintain_concurrency_lease
    with lost_slots_tolerated():
        ENGINE.maintain_concurrency_lease(uuid4(), 300, raise_on_lease_renewal_failure=True)
    assert strict == [False]
    assert ENGINE.maintain_concurrency_lease is before


def test_a_worker_loads_no_flow_for_hooks() -> None:
    """Whatever the deployment names; Prefect's own loader is restored afterwards."""
    before = PROCESS.load_flow_from_flow_run
    with no_flow_for_hooks():
        assert not asyncio.run(PROCESS.load_flow_from_flow_run(None, None)).on_crashed_hooks
    assert PROCESS.load_flow_from_flow_run is before


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


def test_work_is_done_without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Mock(side_effect=httpx.ConnectError("refused"))
    monkeypatch.setattr("mcvrp.flows.server.records.get_client", refused)
    records = ended()
    records.verify(seconds=0)
    assert records.outage
    records.given_up.set()
    requests = refused.call_count
    records.verify()
    assert refused.call_count == requests


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
