"""Tests of a busy Prefect server with SQLite: no client gets the answer 503, and nothing waits for itself."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from prefect.client.orchestration import get_client

from mcvrp.flows.server.automations import end_dead_runs
from mcvrp.flows.server.deployments import TAG
from mcvrp.flows.server.server import Server, server_at, server_keeper
from mcvrp.tasks.support.processes import free_port
from tests.support.shared import until

pytestmark = pytest.mark.slow

RUNS, TASKS, LINES = 15, 3, 5


class Served(NamedTuple):
    server: Server
    client: httpx.Client
    home: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home, server = tmp_path_factory.mktemp("served"), server_at(free_port())
    assert server.password
    user, _, password = server.password.partition(":")
    # without telemetry as for users, see `settings.prepare`: it reads and then writes, too
    changes = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with (
        (home / "log").open("w+") as log,
        server_keeper(server, log, changes),
        httpx.Client(base_url=server.url, auth=(user, password), timeout=120) as client,
    ):
        yield Served(server, client, home)


def test_many_runs_at_once_get_an_answer_each(served: Served) -> None:
    """Runs are created, change state and log concurrently: no 503, and nothing is written twice."""
    client = served.client
    flow = client.post("/flows/", json={"name": "flow"}).json()["id"]

    def run(number: int) -> list[int]:
        created = client.post("/flow_runs/", json={"flow_id": flow, "name": f"run {number}"})
        if created.is_error:
            return [created.status_code]
        states = f"/flow_runs/{created.json()['id']}/set_state"
        task = {"flow_run_id": created.json()["id"], "task_key": "task"}
        requests: list[tuple[str, object]] = [(states, {"state": {"type": "RUNNING"}, "force": True})]
        requests += [("/task_runs/", task | {"dynamic_key": str(key)}) for key in range(TASKS)]
        line = {"name": "log", "level": 20, "message": "a line", "timestamp": "2026-01-31T00:00:00Z"}
        requests += [("/logs/", [line | {"flow_run_id": task["flow_run_id"]}] * LINES)]
        requests += [(states, {"state": {"type": "COMPLETED"}, "force": True})]
        return [created.status_code, *(client.post(path, json=body).status_code for path, body in requests)]

    with ThreadPoolExecutor(RUNS) as pool:
        codes = Counter(code for results in pool.map(run, range(2 * RUNS)) for code in results)
    assert codes == {201: 2 * RUNS * (4 + TASKS)}
    for things, per_run in (("flow_runs", 1), ("task_runs", TASKS)):
        assert client.post(f"/{things}/count", json={}).json() == 2 * RUNS * per_run
    assert len(client.post("/logs/filter", json={"limit": 200}).json()) == 2 * RUNS * LINES


def test_events_of_many_runs_meet_no_locked_database(served: Served) -> None:
    """Automations write a row per event of a run, while others write its states.

    In transactions that read first, 153 of 160 events failed, with a traceback each time.
    """
    with served.server.in_use(), get_client(sync_client=True) as prefect:
        end_dead_runs(prefect)
    flow = served.client.post("/flows/", json={"name": "flow"}).json()["id"]
    states = ("PENDING", "RUNNING", "CANCELLING", "CANCELLED")

    def run(number: int) -> None:
        body = {"flow_id": flow, "name": f"run {number}", "tags": [TAG]}
        path = f"/flow_runs/{served.client.post('/flow_runs/', json=body).json()['id']}/set_state"
        for state in states:
            body = {"state": {"type": state}, "force": True}
            served.client.post(path, json=body).raise_for_status()

    with sqlite3.connect(served.home / "prefect.db", timeout=60) as database:
        # Prefect removes the row of a run for which the expected event has come, every few seconds.
        database.executescript(
            "create table made (automation, run, unique (automation, run) on conflict ignore);"
            "create trigger making after insert on automation_bucket begin "
            "insert into made values (new.trigger_id, new.bucketing_key); end"
        )

        def rows() -> int:
            of_runs = "select count(*) from made where run like '%flow-run%'"
            return int(database.execute(of_runs).fetchone()[0])

        def counted() -> int:
            run(-1)
            return rows()

        until("that the server has loaded them", 60, counted, 1.0)
        expected = 2 * 2 * RUNS + rows()  # one after Pending and one after Cancelling
        with ThreadPoolExecutor(RUNS) as pool:
            list(pool.map(run, range(2 * RUNS)))
        until("all events", 60, lambda: rows() >= expected)
    assert "database is locked" not in (served.home / "log").read_text()


_SECONDS = 20.0  # that a connection waits for another to write

# A connection whose failed cursor is garbage waits for another one that the main thread has to commit, as in
# the server, where the main thread serves. Meanwhile objects are created, which makes Python collect garbage.
_PROGRAM = f"""
import sqlite3, sys, threading, time
from mcvrp.flows.server.app import create_app

create_app()
first = sqlite3.connect(sys.argv[1], isolation_level=None)
second = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
first.execute("create table t (x)")
first.execute("begin immediate")
second.execute("pragma busy_timeout = 0")
garbage = [second.cursor()]
try:
    garbage[0].execute("begin immediate")
except sqlite3.OperationalError:
    garbage.append(garbage)
first.execute("commit")
second.execute("pragma busy_timeout = {_SECONDS * 1000:.0f}")
first.execute("begin immediate")

def write():
    try:
        second.execute("begin immediate")
        print("admitted")
    except sqlite3.OperationalError as error:
        print(error)

writer = threading.Thread(target=write)
writer.start()
time.sleep(1.0)
del garbage
made = [[] for _ in range(100_000)]
first.execute("commit")
writer.join()
"""


def test_garbage_does_not_make_the_server_wait_for_itself(tmp_path: Path) -> None:
    """If the main thread collects it, the second connection waits in vain: "database is locked"."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "db")],
        env=os.environ | {"PREFECT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "admitted\n", done.stderr
