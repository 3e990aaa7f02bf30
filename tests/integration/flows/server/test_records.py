"""Tests of commands with a real Prefect server: stages and log lines are on record, no process survives."""

from __future__ import annotations

import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from tests.support.command import SPRUNG, Workplace
from tests.support.faults import CITY
from tests.support.shared import running, until

SMOKE = ("label", "--preset", "smoke", "--set", "label.held_out=0", "--set", "city.name=c")
TRAPS = ("json", "calendar", "secrets", "random", "logging", "socket", "typing")


@pytest.fixture
def place(scratch: Path) -> Workplace:
    """A workplace with the city that `SMOKE` labels."""
    place = Workplace.new(scratch)
    save_city(Store.open(place.store), "c", CITY)
    return place


@pytest.mark.slow
def test_a_command_leaves_its_stage_on_record_and_its_figures(place: Workplace) -> None:
    """Whatever proxy the environment names, and whatever modules are in the folder of the user."""
    place.set_traps(TRAPS)
    proxies = dict.fromkeys(("all_proxy", "ALL_PROXY"), "socks5://127.0.0.1:9")
    program = [str(Path(sys.executable).with_name("mcvrp")), *SMOKE, "--set", "label.count=4"]
    environment = place.environment(**proxies)
    done = subprocess.run(
        program, cwd=place.folder, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert SPRUNG not in done.stdout + done.stderr
    assert place.recorded("flow_run") == Counter({("label smoke n=20-22, 3 partitions", "COMPLETED"): 1})
    assert place.recorded("task_run") == Counter({("solve smoke n=20-22", "COMPLETED"): 1})
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        page, bar = database.execute("SELECT type, key, data FROM artifact ORDER BY type").fetchall()
    assert page[:2] == ("markdown", "label-smoke")
    assert bar == ("progress", "label-smoke-labels-smoke-progress", 100)
    assert "labels: **12**" in page[2]
    folder = f"{place.store}/labels/smoke"
    assert done.stdout.count(folder) == 1
    assert [text for _, _, text in place.logged()][-1] == "Finished in state Completed()"
    assert not any("ray" not in " ".join(each.cmdline()) for each in running(str(place.prefect)))


@pytest.mark.slow
def test_the_command_ends_with_its_server_and_resumes(place: Workplace) -> None:
    few = {"PREFECT_CLIENT_MAX_RETRIES": "1"}
    command = [sys.executable, "-m", "mcvrp.flows.cli.main", *SMOKE, "--set", "label.shard_rows=10"]
    with subprocess.Popen(
        command, cwd=place.folder, env=place.environment(**few), stderr=subprocess.PIPE, text=True
    ) as process:
        until("a shard", 300, lambda: any(place.store.rglob("rows-*.parquet")))
        for server in running("prefect", process.pid):
            server.send_signal(signal.SIGKILL)
        err = process.communicate(timeout=300)[1]
    assert process.returncode == 1, err
    last = err.splitlines()[-1]
    assert last.startswith("mcvrp: the Prefect server at http://127.0.0.1:")
    assert last.endswith("what is finished is kept, the same command resumes from there")
    made = {path: path.stat().st_mtime_ns for path in place.store.rglob("rows-*.parquet")}
    done = place.mcvrp(*SMOKE, "--set", "label.shard_rows=10")
    assert done.returncode == 0, done.stderr
    assert (
        made.items()
        <= {path: path.stat().st_mtime_ns for path in place.store.rglob("rows-*.parquet")}.items()
    )


SECRET = "s3cr3ts3cr3t"  # noqa: S105 - not that of test_canary, which reads the command lines of all tests

# Lines of a flow, tasks and a thread without a run, read by Prefect's client; a stage that lacks something.
RUNS = f"""
import contextlib, json, logging, threading
from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
settings.prepare(verbose=False)
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import prefect_server
from mcvrp.flows.server.stage import stage, task
from mcvrp.tasks.label.stage import LabelSummary

logger = logging.getLogger("mcvrp.tasks.some.module")

@task("step", "step {{k}}")
def step(k):
    logger.warning("a worker was lost: %s", ValueError("{SECRET}"))
    if k == 2:
        raise ValueError("two")

@stage("speaks", "speaks", timeout=60)
def speaks():
    logger.info("in the flow, s3://me:{SECRET}@host")
    logger.debug("a detail")
    thread = threading.Thread(target=logger.info, args=("of no run",))
    thread.start()
    thread.join()
    for k in (1, 2):
        with contextlib.suppress(ValueError):
            step(k)
    raise RuntimeError("unexpected {SECRET}")

@stage("label", "label", timeout=60)
def label():
    return LabelSummary("d", 3, 3, 1.0, lacks="dataset 'd' lacks 1 of 4 labels")

with terminal(), prefect_server():
    with contextlib.suppress(RuntimeError):
        speaks()
    assert label().rows == 3
    from prefect.logging.handlers import APILogWorker
    APILogWorker.drain_all(timeout=10)
    with get_client(sync_client=True) as client:
        logs = client.read_logs()
print(json.dumps([(log.name, log.level, log.message, bool(log.task_run_id)) for log in logs]))
"""


@pytest.mark.slow
def test_every_run_is_on_record_with_its_state_and_lines(place: Workplace) -> None:
    """Missing results are in its state, and not on the terminal: the command prints them last."""
    done = place.python("-c", RUNS, SOME_PASSWORD=SECRET)
    assert done.returncode == 0, done.stderr
    assert set(place.recorded("task_run")) == {("step 1", "COMPLETED"), ("step 2", "FAILED")}
    assert set(place.recorded("flow_run")) == {("speaks", "FAILED"), ("label", "COMPLETED")}
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        states = database.execute("SELECT name, message FROM flow_run_state WHERE type = 'COMPLETED'")
        assert states.fetchall() == [("Incomplete", "dataset 'd' lacks 1 of 4 labels")]
    lines = [tuple(line) for line in json.loads(done.stdout)]
    assert Counter(line for line in lines if line[0].startswith("mcvrp")) == {
        ("mcvrp.tasks.some.module", logging.INFO, "in the flow, s3://…@host", False): 1,
        ("mcvrp.tasks.some.module", logging.WARNING, "a worker was lost: …", True): 2,
    }
    assert any("RuntimeError: unexpected …" in message for _, level, message, _ in lines if level == 40)
    assert SECRET not in done.stdout
    said = [line for line in done.stderr.splitlines() if "Prefect server" not in line]
    assert said == ["in the flow, s3://…@host", "of no run", *["a worker was lost: …"] * 2]
    assert place.processes() == []
