"""What a real Prefect server does with runs that fall silent, in seconds in place of minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Workplace

# Runs as a worker and an engine leave them when they are killed, beside some that nobody is to touch.
SILENT = """
import json, tempfile, time
from dataclasses import replace
from datetime import timedelta
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.states import Cancelling, Completed, Pending, Running
from mcvrp.flows.server.dead_runs import SILENCES, end_dead_runs
from mcvrp.flows.server.deployments import TAG
from mcvrp.flows.server.server import server_at, start_server
from mcvrp.tasks.support.processes import free_port, stop_group

@flow
def work():
    pass

def beat(run):
    role = {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
    related = [role] if TAG in run.tags else []
    resource = {"prefect.resource.id": f"prefect.flow-run.{run.id}"}
    emit_event("prefect.flow-run.heartbeat", resource, related=related)

server = server_at(free_port())
with tempfile.TemporaryFile("w+") as log:
    process = start_server(server, log, {})
    try:
        with server.in_use(), get_client(sync_client=True) as client:
            silences = [replace(silence, within=timedelta(seconds=20)) for silence in SILENCES]
            end_dead_runs(client, silences)
            time.sleep(3)  # the server reads its automations anew
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
            for name in ("killed", "alive", "done", "of others"):
                beat(runs[name])
            time.sleep(5)
            before = client._client.post("/automations/filter", json={}).json()
            end_dead_runs(client, silences)  # as the next `mcvrp ui` does: what was seen is not forgotten
            assert client._client.post("/automations/filter", json={}).json() == before
            open_runs, until = {"killed", "never began", "never stopped"}, time.monotonic() + 180
            while open_runs and time.monotonic() < until:
                beat(runs["alive"])
                time.sleep(2)
                states = {name: client.read_flow_run(run.id).state.type.value for name, run in runs.items()}
                open_runs -= {name for name, state in states.items() if state in ("CRASHED", "CANCELLED")}
            EventsWorker.drain_all(timeout=5)
    finally:
        stop_group(process, grace=1.0)
print(json.dumps(states))
"""


@pytest.mark.slow
def test_a_run_that_falls_silent_ends(tmp_path: Path) -> None:
    """In any state that a kill leaves; not one that works, has ended, or is no run of ours."""
    done = Workplace.new(tmp_path).python("-c", SILENT)
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
