"""Tests of outages of the Prefect server: work continues, records arrive late or not at all."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from pyarrow import parquet

from tests.support.command import Workplace
from tests.support.shared import running

# A stage within a stage; the server ends during the inner one. Few retries: seconds instead of minutes.
AWAY = """
import logging, sys, tempfile, threading, time
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect import task
from mcvrp.flows.cli import commands
from mcvrp.flows.config.logs import terminal
from mcvrp.flows.server.records import Records
from mcvrp.flows.server.server import server_at, server_keeper
from mcvrp.flows.server.stage import TASK_OPTIONS, stage
from mcvrp.tasks.support.processes import free_port

back_again = sys.argv[1] == "back"
server, keepers = server_at(free_port()), []

def start():
    keepers.append(server_keeper(server, log, {}).__enter__())

def start_and_stay():  # the server is killed with the thread that has started it
    time.sleep(3)
    start()
    time.sleep(500)

@task(name="work", **TASK_OPTIONS)
def work():
    keepers.pop().end()
    time.sleep(1)
    if back_again:
        threading.Thread(target=start_and_stay, daemon=True).start()

@stage("inner", "inner", timeout=500)
def inner():
    work()

@stage("later", "later", timeout=500)
def later():
    pass

@stage("outer", "outer", timeout=500)
def outer():
    inner()
    if back_again:
        later()
    return 7

with tempfile.TemporaryFile("w+") as log, terminal():
    start()
    try:
        with server.in_use():
            print("result:", commands._on_record(outer, Records()), flush=True)
    finally:
        for keeper in keepers:
            keeper.end()
"""
_WARNING = "the Prefect server does not answer: the work continues"


@pytest.mark.slow
@pytest.mark.parametrize("then", ["away", "back"])
def test_a_run_outlives_its_server(place: Workplace, then: str) -> None:
    done = place.python("-c", AWAY, then, PREFECT_CLIENT_MAX_RETRIES="1")
    assert done.returncode == 0, done.stderr
    assert "result: 7" in done.stdout
    assert done.stderr.count(_WARNING) == 1
    assert "Traceback" not in done.stderr
    states = place.recorded("flow_run")
    if then == "back":
        assert {state for _, state in place.recorded("task_run")} == {"COMPLETED"}
        assert states == Counter({(name, "COMPLETED"): 1 for name in ("inner", "later", "outer")})
    else:
        assert states == Counter({("inner", "RUNNING"): 1, ("outer", "RUNNING"): 1})


pytestmark = pytest.mark.slow
_ENDED = "the Prefect server ended (exit code -9), restarting it"
_RUN = ("run", "--preset", "smoke", "--set", "train.ranks=1", "--set", 'benchmark.methods=["hgs","fm-gs"]')


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace.new(tmp_path_factory.mktemp("undisturbed"))
    done = place.mcvrp(*_RUN)
    assert done.returncode == 0, done.stderr
    return place


def made(place: Workplace) -> dict[str, object]:
    weights = {path: path.read_bytes() for path in place.store.rglob("*.safetensors")}
    parts = (place.store / "labels").rglob("data/**/*.parquet")
    labels = {path: parquet.ParquetFile(path).read().drop_columns("runtime").to_pylist() for path in parts}
    return {str(path.relative_to(place.store)): content for path, content in (weights | labels).items()}


def serves(process: subprocess.Popen[str]) -> bool:
    """Return whether the server of the command accepts connections."""
    with contextlib.suppress(psutil.NoSuchProcess):
        servers = running("uvicorn", process.pid)
        return any(each.status == "LISTEN" for server in servers for each in server.net_connections())
    return False


def kill_server(process: subprocess.Popen[str]) -> None:
    for server in running("uvicorn", process.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            server.kill()


def killed(place: Workplace, *after: float, always: bool = False) -> str:
    """Run the command, its server killed ``after`` seconds from its start and each kill; return stderr."""
    errors = place.folder / "stderr"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcvrp.flows.cli.main", *_RUN],
            cwd=place.folder,
            env=place.environment(),
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
    try:
        while process.poll() is None and not serves(process):
            time.sleep(0.02)
        for seconds in after:
            time.sleep(seconds)
            kill_server(process)
        while always and process.poll() is None:
            kill_server(process)
            time.sleep(0.05)
        assert process.wait(timeout=400) == 0, errors.read_text()
        return errors.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "after",
    [(0.2,), (2.0,), (9.0,), (0.2, 1.0, 2.0)],
    ids=["before the first stage", "in the first stage", "in a later stage", "while it starts, repeatedly"],
)
def test_a_run_continues_with_its_server_restarted(
    tmp_path: Path, undisturbed: Workplace, after: tuple[float, ...]
) -> None:
    place = Workplace.new(tmp_path)
    stderr = killed(place, *after)
    assert stderr.count(_ENDED) >= 1
    assert "unexpected" not in stderr
    assert made(place) == made(undisturbed)
    assert place.processes() == []
    assert set(place.recorded("flow_run")) == set(undisturbed.recorded("flow_run"))


@pytest.mark.timeout(1500)  # every start of a server is ended: minutes on a busy machine
def test_a_run_whose_server_does_not_stay_up_continues_without_a_record(
    tmp_path: Path, undisturbed: Workplace
) -> None:
    place = Workplace.new(tmp_path)
    stderr = killed(place, 2.0, always=True)
    given_up = "the Prefect server ends again and again: see whether memory or the disk is full"
    assert stderr.count(f"the work continues without a record: {given_up}\n") == 1
    assert "unexpected" not in stderr
    assert made(place) == made(undisturbed)
    assert place.processes() == []
