"""Tests with a real Prefect server: every stage of a run is on record, and no process survives."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from tests.support.address_files import CITY as EXAMPLE
from tests.support.command import Workplace

# More task runs at once than the ephemeral server of Prefect records.
MANY = """
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect import task
from mcvrp.flows.server.server import prefect_server
from mcvrp.flows.server.records import Records
from mcvrp.flows.server.stage import TASK_OPTIONS, stage

@task(name="step", task_run_name="step {k}", **TASK_OPTIONS)
def step(k):
    if k == 7:
        raise ValueError("seven")

@stage("steps", "steps", timeout=500)
def steps():
    for k in range(60):
        step(k, return_state=True)
    return 1

with prefect_server(records := Records()) as server:
    assert server.ours
    steps.recorded_in(records)()
    assert len(records.runs) == 61
    records.verify()
"""


def test_every_run_is_on_record_with_its_state(place: Workplace) -> None:
    done = place.python("-c", MANY)
    assert done.returncode == 0, done.stderr
    expected = {(f"step {k}", "FAILED" if k == 7 else "COMPLETED"): 1 for k in range(60)}
    assert place.recorded("task_run") == Counter(expected)
    assert place.recorded("flow_run") == Counter({("steps", "COMPLETED"): 1})
    assert place.processes() == []


def test_a_command_leaves_its_stage_on_record_and_its_figures(place: Workplace) -> None:
    done = place.mcvrp("city", "import", str(EXAMPLE), "--demand", "2", "12")
    assert done.returncode == 0, done.stderr
    assert "city_id" in done.stdout
    title = "city rivermouth, imported from rivermouth.csv"
    assert place.recorded("flow_run") == Counter({(title, "COMPLETED"): 1})
    assert place.recorded("task_run") == Counter({("make city rivermouth", "COMPLETED"): 1})
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        found = database.execute("SELECT type, key, data FROM artifact ORDER BY type").fetchall()
    (kind, key, text), bar = found
    assert (kind, key) == ("markdown", "city-rivermouth")
    assert bar == ("progress", "city-rivermouth-progress", 100)
    assert "city_id" in text
    assert "2 to 12" in text
    assert "![Map of the addresses](data:image/png" in text
    assert len(done.stderr.splitlines()) == 2  # that a server starts, and where it is
    assert place.processes() == []


@pytest.mark.slow
def test_a_failed_stage_is_on_record_too(place: Workplace) -> None:
    (place.store / "cities" / "smoke").mkdir(parents=True)
    (place.store / "cities" / "smoke" / "city.json").write_text("no JSON")
    done = place.mcvrp("city", "create", "--preset", "smoke")
    assert done.returncode == 2
    assert "city.json is not JSON" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert place.recorded("task_run") == Counter({("make city smoke", "FAILED"): 1})
    assert place.recorded("flow_run") == Counter({("city smoke, 50 customers", "FAILED"): 1})


def test_a_configured_server_that_does_not_answer_is_an_error(place: Workplace) -> None:
    url = "http://127.0.0.1:9/api"
    done = place.mcvrp("city", "create", "--preset", "smoke", PREFECT_API_URL=url)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mcvrp: no Prefect server answers at {url}")
    assert not (place.store / "cities").exists()
