"""Tests of a real Prefect server with runs that fall silent, in seconds instead of minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcvrp.flows.server.automations import CUT_OFF
from tests.support.command import Workplace

COMMON = """
import asyncio, json, tempfile, time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.filters import ArtifactFilter, LogFilter
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.states import Cancelled, Cancelling, Completed, Crashed, Pending, Running
from mcvrp.flows.server.automations import SILENCES, end_dead_commands, end_dead_runs, end_stopped_runs
from mcvrp.flows.server.deployments import COMMAND_TAG, POOL, TAG, _make_pool
from mcvrp.flows.server.flow_worker import FlowWorker
from mcvrp.flows.server.server import server_at, server_keeper
from mcvrp.tasks.support.processes import free_port

@flow
def work():
    pass

HEARTBEAT = "prefect.flow-run.heartbeat"

def beat(run):
    role = {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
    related = [role] if TAG in run.tags else []
    resource = {"prefect.resource.id": f"prefect.flow-run.{run.id}"}
    emit_event(HEARTBEAT, resource, related=related)
"""

# Runs as killed workers and engines leave them, beside some that have to stay as they are.
SILENT = """
server = server_at(free_port())
with tempfile.TemporaryFile("w+") as log:
    with server_keeper(server, log, {}), server.in_use(), get_client(sync_client=True) as client:
        silences = [replace(silence, within=timedelta(seconds=20)) for silence in SILENCES]
        end_dead_runs(client, silences)
        time.sleep(10)  # until the server has loaded its automations
        runs = {}
        for name, tags, states in (
            ("killed", [TAG], [Running()]),
            ("alive", [TAG], [Running()]),
            ("done", [TAG], [Running(), Completed()]),
            ("of others", [], [Running()]),
            ("never began", [TAG], [Pending()]),
            ("began", [TAG], [Pending(), Running()]),
            ("never stopped", [TAG], [Running(), Cancelling()]),
        ):
            runs[name] = client.create_flow_run(work, name=name, tags=tags)
            for state in states:
                client.set_flow_run_state(runs[name].id, state, force=True)
                # Prefect processes the events of a run in order. One that arrives while the previous one is
                # being finished waits for 15 minutes; states of real runs are further apart.
                time.sleep(1)
        for name in ("killed", "alive", "done", "of others"):
            beat(runs[name])
        time.sleep(5)
        before = client._client.post("/automations/filter", json={}).json()
        end_dead_runs(client, silences)  # as the next `mcvrp ui` does: known events still count
        assert client._client.post("/automations/filter", json={}).json() == before
        open_runs, until = {"killed", "never began", "never stopped"}, time.monotonic() + 120
        while open_runs and time.monotonic() < until:
            beat(runs["alive"])
            time.sleep(2)
            states = {name: client.read_flow_run(run.id).state.type.value for name, run in runs.items()}
            open_runs -= {name for name, state in states.items() if state in ("CRASHED", "CANCELLED")}
        EventsWorker.drain_all(timeout=5)
print(json.dumps(states))
"""

# A worker that synchronizes once with task runs of dead runs.
LEFT = """
@task
def step():
    pass

async def look():
    async with FlowWorker(work_pool_name=POOL):
        pass

async def look_for_commands(since):
    async with get_client() as client:
        await end_dead_commands(client, datetime.now(UTC) - since)

server = server_at(free_port())
with tempfile.TemporaryFile("w+") as log:
    with server_keeper(server, log, {}), server.in_use(), get_client(sync_client=True) as client:
        _make_pool(client)
        tasks = {}
        for name, tags, of_run, of_task in (
            ("killed", [TAG], Crashed(), Running()),
            ("cancelled", [TAG], Cancelled(), Pending()),
            ("done before", [TAG], Crashed(), Completed()),
            ("alive", [TAG], Running(), Running()),
            ("of others", [], Crashed(), Running()),
        ):
            run = client.create_flow_run(work, tags=tags)
            tasks[name] = client.create_task_run(step, run.id, dynamic_key="0", state=of_task).id
            client.set_flow_run_state(run.id, of_run, force=True)
        bars = []
        for data, text in ((10.0, "labels d: 100/1,000, 5 min left; 75 labels are kept after a cancel"),
                           (100.0, "labels e: 5/5 labels")):
            bar = ArtifactCreate(type="progress", data=data, description=text, task_run_id=tasks["killed"])
            bars.append(client.create_artifact(bar).id)
        asyncio.run(look())
        of_bars = ArtifactFilter.model_validate({"id": {"any_": bars}})
        shown = sorted(bar.description for bar in client.read_artifacts(artifact_filter=of_bars))
        of_task = LogFilter.model_validate({"task_run_id": {"any_": [tasks["killed"]]}})
        logged = [line.message for line in client.read_logs(of_task)]
        runs = {}
        for name, tags, state in (
            ("killed command", [COMMAND_TAG], Running()),
            ("command killed as it began", [COMMAND_TAG], Pending()),
            ("living command", [COMMAND_TAG], Running()),
            ("ended command", [COMMAND_TAG], Completed()),
            ("run of a worker", [TAG], Running()),
        ):
            runs[name] = client.create_flow_run(work, tags=tags)
            client.set_flow_run_state(runs[name].id, state, force=True)
        beat(runs["killed command"])
        time.sleep(1)
        since = datetime.now(UTC)
        time.sleep(1)  # more than passes between the two readings of the clock in `look_for_commands`
        beat(runs["living command"])
        runs["new command"] = client.create_flow_run(work, tags=[COMMAND_TAG])
        client.set_flow_run_state(runs["new command"].id, Running(), force=True)
        EventsWorker.drain_all(timeout=60)
        sent = {f"prefect.flow-run.{runs[name].id}" for name in ("killed command", "living command")}
        written, until = set(), time.monotonic() + 120
        while not sent <= written and time.monotonic() < until:
            time.sleep(0.5)
            answer = client._client.post("/events/filter", json={"filter": {"event": {"name": [HEARTBEAT]}}})
            written = {event["resource"]["prefect.resource.id"] for event in answer.json()["events"]}
        asyncio.run(look_for_commands(since))
        runs = {name: run.id for name, run in runs.items()}
        for name, above, state in (
            ("works", None, Running()),
            ("its stage", "works", Running()),
            ("its ended stage", "works", Completed()),
            ("begins", None, Pending()),
            ("is cancelled", None, Cancelling()),
            ("works elsewhere", None, Running()),
        ):
            parent = client.create_task_run(step, runs[above], dynamic_key=name).id if above else None
            runs[name] = client.create_flow_run(work, tags=[TAG], parent_task_run_id=parent).id
            client.set_flow_run_state(runs[name], state, force=True)
        end_stopped_runs([str(runs[name]) for name in ("works", "begins", "is cancelled")])
        states = {name: client.read_task_run(task).state for name, task in tasks.items()}
        states |= {name: client.read_flow_run(run).state for name, run in runs.items()}
states = {name: [state.type.value, state.message] for name, state in states.items()}
print(json.dumps([states, shown, logged]))
"""


@pytest.mark.slow
def test_runs_end_with_what_they_are_part_of(tmp_path: Path) -> None:
    """Prefect would show them as running indefinitely, and the time that is left of killed ones."""
    done = Workplace.new(tmp_path).python("-c", COMMON + LEFT)
    assert done.returncode == 0, done.stderr
    states, shown, logged = json.loads(done.stdout)
    assert logged == ["Interrupted, at least 75 labels are kept, start again to resume"]
    assert shown == [f"labels d: {logged[0]}", "labels e: 5/5 labels"]
    by_state: dict[str, set[str]] = {}
    for name, state in states.items():
        by_state.setdefault(": ".join(filter(None, state)), set()).add(name)
    assert by_state == {
        "CRASHED: its flow run has ended": {"killed", "cancelled"},
        f"CRASHED: {CUT_OFF}": {
            "works",
            "its stage",
            "begins",
            "killed command",
            "command killed as it began",
        },
        "COMPLETED": {"done before", "its ended stage", "ended command"},
        "RUNNING": {
            "alive",
            "of others",
            "works elsewhere",
            "living command",
            "new command",
            "run of a worker",
        },
        "CANCELLING": {"is cancelled"},
    }


@pytest.mark.slow
def test_a_run_that_falls_silent_ends(tmp_path: Path) -> None:
    done = Workplace.new(tmp_path).python("-c", COMMON + SILENT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "killed": "CRASHED",
        "alive": "RUNNING",
        "done": "COMPLETED",
        "of others": "RUNNING",
        "never began": "CRASHED",
        "began": "RUNNING",
        "never stopped": "CANCELLED",
    }
