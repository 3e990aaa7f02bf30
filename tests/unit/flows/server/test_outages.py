"""A Prefect server that does not answer: states of runs stand all the same, and it is told once."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect import flow_engine
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed

from mcvrp.flows.server import outages
from mcvrp.flows.server.outages import outlived, outliving_outages
from mcvrp.flows.server.records import Record, Records

ENGINE: Any = flow_engine


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Prefect's engine as it is."""
    for name in ("propose_state_sync", "maintain_concurrency_lease"):
        monkeypatch.setattr(flow_engine, name, getattr(flow_engine, name))
    monkeypatch.setattr(flow_engine.FlowRunEngine, "create_flow_run", outages._create)
    monkeypatch.setattr(outages, "_told", [])


def _refused(*_: object, **__: object) -> State[None]:
    raise httpx.ConnectError("refused")


def test_a_state_stands_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two states, one warning; of a server that answers, what it says."""
    monkeypatch.setattr(outages, "propose_state_sync", _refused)
    monkeypatch.setattr(logging.getLogger("mcvrp"), "propagate", True)
    state: State[None] = Completed()
    with outliving_outages():
        propose = ENGINE.propose_state_sync
        assert not outlived()
        assert propose(None, state, flow_run_id=uuid4()) is state
        assert propose(None, state, flow_run_id=uuid4(), force=True) is state
        assert outlived()
        monkeypatch.setattr(outages, "propose_state_sync", lambda *_, **__: "answered")
        assert propose(None, state, flow_run_id=uuid4()) == "answered"
    assert [record.getMessage().startswith("the Prefect server does not") for record in caplog.records] == [
        True
    ]


def test_a_new_run_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect itself asks for it once."""
    asked: list[object] = []

    def create(engine: object, client: object) -> Any:
        asked.append(client)
        return "made" if len(asked) == 3 else _refused()

    monkeypatch.setattr(outages, "_create", create)
    monkeypatch.setattr(outages, "_PAUSE_SECONDS", 0.0)
    with outliving_outages():
        assert ENGINE.FlowRunEngine.create_flow_run(None, None) == "made"
    monkeypatch.setattr(outages, "_create", _refused)
    monkeypatch.setattr(outages, "_BEGIN_SECONDS", -1.0)
    with outliving_outages(), pytest.raises(httpx.ConnectError):
        ENGINE.FlowRunEngine.create_flow_run(None, None)


def test_a_slot_that_is_lost_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect would end it, as a server that was away for minutes knows the slot no more."""
    asked: list[bool] = []
    monkeypatch.setattr(
        outages,
        "maintain_concurrency_lease",
        lambda *_, raise_on_lease_renewal_failure: asked.append(raise_on_lease_renewal_failure),
    )
    with outliving_outages():
        maintain = ENGINE.maintain_concurrency_lease
        maintain(uuid4(), 300, raise_on_lease_renewal_failure=True)
    assert asked == [False]


def test_work_that_is_done_is_done_without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is still away when they are looked for."""
    records = Records()
    records._records[uuid4()] = Record("flow", uuid4(), "label", "COMPLETED")
    monkeypatch.setattr(records, "missing", _refused)
    records.verify(seconds=0)
    assert outlived()


def test_a_task_run_that_the_server_has_missed_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's own events of it are lost; of one that the server does not know, nothing can be told."""
    known, unknown = (Record("task", uuid4(), name, "COMPLETED") for name in ("known", "unknown"))
    told: list[UUID] = []

    def tell(run: UUID, state: State[Any], *, force: bool) -> None:
        if run == unknown.id:
            raise ObjectNotFound(http_exc=httpx.HTTPError("404"))
        assert state.is_completed()
        told.append(run)

    records = Records()
    client = SimpleNamespace(set_flow_run_state=tell, set_task_run_state=tell)
    monkeypatch.setattr("mcvrp.flows.server.records.get_client", lambda **_: nullcontext(client))
    monkeypatch.setattr(records, "missing", lambda: [r for r in (known, unknown) if r.id not in told])
    monkeypatch.setattr(outages, "_told", ["away"])
    records.verify(seconds=0)
    assert told == [known.id]
