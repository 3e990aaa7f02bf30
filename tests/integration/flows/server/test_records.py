"""Tests with a real Prefect server: every stage and log line is on record, and no process survives."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter

import pytest

from tests.support.address_files import CITY as EXAMPLE
from tests.support.command import Workplace

# More task runs at once than the ephemeral server of Prefect records, and a stage that lacks something.
MANY = """
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect import task
from mcvrp.flows.config.logs import terminal
from mcvrp.flows.server.server import prefect_server
from mcvrp.flows.server.records import Records
from mcvrp.flows.server.stage import TASK_OPTIONS, stage
from mcvrp.tasks.label.stage import LabelSummary

@task(name="step", task_run_name="step {k}", **TASK_OPTIONS)
def step(k):
    if k == 7:
        raise ValueError("seven")

@stage("steps", "steps", timeout=500)
def steps():
    for k in range(60):
        step(k, return_state=True)
    return 1

@stage("label", "label", timeout=60)
def label():
    return LabelSummary("d", 3, 3, 1.0, 1.0, 1, lacks="dataset 'd' lacks 1 of 4 labels")

with terminal(), prefect_server(records := Records()) as server:
    assert server.ours
    steps.recorded_in(records)()
    assert label.recorded_in(records)().rows == 3
    assert len(records.runs) == 62
    records.verify()
"""


@pytest.mark.slow
def test_every_run_is_on_record_with_its_state(place: Workplace) -> None:
    """Missing results are in its state and log, and not on the terminal: the command prints them last."""
    done = place.python("-c", MANY)
    assert done.returncode == 0, done.stderr
    expected = {(f"step {k}", "FAILED" if k == 7 else "COMPLETED"): 1 for k in range(60)}
    assert place.recorded("task_run") == Counter(expected)
    assert place.recorded("flow_run") == Counter({("steps", "COMPLETED"): 1, ("label", "COMPLETED"): 1})
    assert "lacks" not in done.stderr
    warnings = [text for _, level, text in place.logged() if level == logging.WARNING]
    assert warnings == ["dataset 'd' lacks 1 of 4 labels"]
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        messages = database.execute("SELECT message FROM flow_run_state WHERE type = 'COMPLETED'").fetchall()
    assert {message for (message,) in messages} == {None, "dataset 'd' lacks 1 of 4 labels"}
    assert place.processes() == []


def test_a_command_leaves_its_stage_on_record_and_its_figures(place: Workplace) -> None:
    done = place.mcvrp("city", "import", str(EXAMPLE), "--demand", "2", "12")
    assert done.returncode == 0, done.stderr
    assert "city_id" in done.stdout
    title = "city rivermouth, imported from rivermouth.csv"
    assert place.recorded("flow_run") == Counter({(title, "COMPLETED"): 1})
    assert place.recorded("task_run") == Counter({("make city rivermouth", "COMPLETED"): 1})
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        page, bar = database.execute("SELECT type, key, data FROM artifact ORDER BY type").fetchall()
    assert page[:2] == ("markdown", "city-rivermouth")
    assert bar == ("progress", "city-rivermouth-progress", 100)
    assert all(part in page[2] for part in ("city_id", "2 to 12", "![Map of the addresses](data:image/png"))
    assert len(done.stderr.splitlines()) == 1  # that a server starts, and not where it is: no terminal
    folder = f"{place.store}/cities/rivermouth"
    assert done.stdout.count(folder) == 1
    result, end = [text for _, _, text in place.logged()][-2:]
    assert result.startswith("result:\ncity: rivermouth\n")
    assert result.endswith(f"\nfolder: {folder}")
    assert end == "Finished in state Completed()"
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


SECRET = "s3cr3ts3cr3t"  # noqa: S105 - not that of test_canary, which reads the command lines of all tests

# Lines of a flow, a task, and a thread without a run, read by Prefect's client.
SPEAKS = f"""
import json, logging, threading
from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
settings.prepare(verbose=False)
from prefect import task
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import prefect_server
from mcvrp.flows.server.stage import TASK_OPTIONS, stage
from mcvrp.model.errors import McvrpError

logger = logging.getLogger("mcvrp.tasks.some.module")

@task(name="step", **TASK_OPTIONS)
def step():
    logger.warning("a worker was lost: %s", ValueError("{SECRET}"))

@stage("speaks", "speaks", timeout=60)
def speaks():
    logger.info("in the flow, s3://me:{SECRET}@host")
    logger.debug("a detail")
    thread = threading.Thread(target=logger.info, args=("of no run",))
    thread.start()
    thread.join()
    step()
    raise RuntimeError("unexpected {SECRET}")

with terminal(), prefect_server():
    speaks(return_state=True)
    from prefect.logging.handlers import APILogWorker
    APILogWorker.drain_all(timeout=10)
    with get_client(sync_client=True) as client:
        logs = client.read_logs()
print(json.dumps([(log.name, log.level, log.message, bool(log.task_run_id)) for log in logs]))
"""


@pytest.mark.slow
def test_lines_of_a_run_are_in_its_logs(place: Workplace) -> None:
    done = place.python("-c", SPEAKS, SOME_PASSWORD=SECRET)
    assert done.returncode == 0, done.stderr
    lines = [tuple(line) for line in json.loads(done.stdout)]
    ours = [line for line in lines if line[0].startswith("mcvrp")]
    assert Counter(ours) == Counter(
        [
            ("mcvrp.tasks.some.module", logging.INFO, "in the flow, s3://…@host", False),
            ("mcvrp.tasks.some.module", logging.WARNING, "a worker was lost: …", True),
        ]
    )
    assert any("RuntimeError: unexpected …" in message for _, level, message, _ in lines if level == 40)
    assert not [line for line in lines if "hook" in line[2]]
    assert SECRET not in done.stdout
    assert [line for line in done.stderr.splitlines() if "Prefect server" not in line] == [
        "in the flow, s3://…@host",
        "of no run",
        "a worker was lost: …",
    ]
