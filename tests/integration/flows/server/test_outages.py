"""Test of an outage of the Prefect server: work continues, records arrive late or not at all."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.command import Workplace

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
