"""Tests with a real Prefect server: every stage of a run is on record, and nothing of us stays."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from flows.records import Record, Records
from model.errors import IncompleteError

# More task runs in a hurry than the ephemeral server of Prefect keeps.
MANY = """
from flows import settings
settings.prepare(verbose=False)
from prefect import flow, task
from flows.cli import say
from flows.prefect_server import prefect_server
from flows.records import RECORDS, flow_hooks, task_hooks

@task(name="step", task_run_name="step {k}", **task_hooks())
def step(k):
    if k == 7:
        raise ValueError("seven")

@flow(name="inner", **flow_hooks())
def inner():
    for k in range(60):
        step(k, return_state=True)
    return 1

@flow(name="outer", **flow_hooks())
def outer():
    return inner()

with prefect_server(say) as server:
    assert server.ours
    outer()
    assert len(RECORDS) == 62
    RECORDS.verify()
"""


def run(tmp_path: Path, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": str(tmp_path / "prefect"), "MCVRP_STORE": str(tmp_path / "store")} | changes
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300
    )


def recorded(home: Path, table: str) -> Counter[tuple[str, str]]:
    """Return (name, final state) of each run, read past Prefect from its database."""
    with sqlite3.connect(home / "prefect.db") as database:
        return Counter(database.execute(f"SELECT name, state_type FROM {table}").fetchall())


def servers(home: Path) -> list[str]:
    """Return the processes that were started with this Prefect home."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PREFECT_HOME={home}".encode() in environ.read_bytes().split(b"\0"):
                found.append(environ.parent.name)
        except OSError:
            continue
    return found


def test_every_run_is_on_record_with_its_state(tmp_path: Path) -> None:
    """60 tasks in a hurry, one of them failing, are all in the database once the server has gone."""
    done = run(tmp_path, "-c", MANY)
    assert done.returncode == 0, done.stderr
    tasks = recorded(tmp_path / "prefect", "task_run")
    assert tasks == Counter({(f"step {k}", "FAILED" if k == 7 else "COMPLETED"): 1 for k in range(60)})
    flows = recorded(tmp_path / "prefect", "flow_run")
    assert Counter(state for _, state in flows.elements()) == Counter({"COMPLETED": 2})
    assert servers(tmp_path / "prefect") == []


def test_a_command_leaves_its_stage_on_record_and_its_figures(tmp_path: Path) -> None:
    """`mcvrp city create` is a flow run and a task run with a Markdown artifact, and says little."""
    done = run(tmp_path, "-m", "flows.cli", "city", "create", "--preset", "smoke")
    assert done.returncode == 0, done.stderr
    assert "city_id" in done.stdout
    home = tmp_path / "prefect"
    assert recorded(home, "flow_run") == Counter({("city smoke, 50 customers", "COMPLETED"): 1})
    assert recorded(home, "task_run") == Counter({("make city smoke", "COMPLETED"): 1})
    with sqlite3.connect(home / "prefect.db") as database:
        ((kind, text),) = database.execute("SELECT type, data FROM artifact").fetchall()
    assert kind == "markdown"
    assert "city_id" in text
    assert len(done.stderr.splitlines()) == 2  # that a server starts, and where it is
    assert servers(home) == []


def test_a_failed_stage_is_on_record_too(tmp_path: Path) -> None:
    """Another city under the same name fails the task and the flow, in a sentence on the terminal."""
    command = ("-m", "flows.cli", "city", "create", "--preset", "smoke")
    assert run(tmp_path, *command).returncode == 0
    done = run(tmp_path, *command, "--set", "city.seed=2")
    assert done.returncode == 2
    assert "another city named 'smoke'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert recorded(tmp_path / "prefect", "task_run")[("make city smoke", "FAILED")] == 1


def test_a_configured_server_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    """One sentence, exit code 2, nothing made."""
    url = "http://127.0.0.1:9/api"
    done = run(tmp_path, "-m", "flows.cli", "city", "create", "--preset", "smoke", PREFECT_API_URL=url)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"mcvrp: no Prefect server answers at {url}")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "store" / "cities").exists()


def test_a_record_that_never_arrives_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the server does not get a run in time, the sentence names it: done in part."""
    records = Records()
    lost = Record("task", uuid4(), "solve", "COMPLETED")
    monkeypatch.setattr(records, "missing", lambda: [lost])
    with pytest.raises(IncompleteError, match="task 'solve'"):
        records.verify(seconds=0)
