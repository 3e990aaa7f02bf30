"""Tests of retention: Prefect servers that mcvrp starts delete old runs with their logs and artifacts."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command import Workplace

pytestmark = pytest.mark.slow
_KEPT_DAYS = 30
_RUNS = """
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.logging import get_run_logger
from mcvrp.flows.server.server import prefect_server

@flow
def work():
    get_run_logger().info("a line")
    create_markdown_artifact("text", key="page")

with prefect_server():
    for name in ("old", "just kept", "new"):
        work.with_options(flow_run_name=name)()
"""
_SERVES = """
import sys, time
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from prefect.client.orchestration import get_client
from mcvrp.flows.server.server import prefect_server

with prefect_server(), get_client(sync_client=True) as client:
    until = time.monotonic() + float(sys.argv[1])
    while len(runs := client.read_flow_runs()) == 3 and time.monotonic() < until:
        time.sleep(1)
    time.sleep(5)  # log lines are deleted after their run
"""


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A workplace with three runs, of which two ended just before and after the limit of retention."""
    place = Workplace.new(tmp_path)
    done = place.python("-c", _RUNS)
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        for name, days in (("old", _KEPT_DAYS + 1), ("just kept", _KEPT_DAYS - 1)):
            ended = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%d %H:%M:%S.%f")
            database.execute("UPDATE flow_run SET end_time = ? WHERE name = ?", (ended, name))
    return place


def kept(place: Workplace, table: str) -> set[str]:
    on = "t.id" if table == "flow_run" else "t.flow_run_id"
    query = f"SELECT DISTINCT coalesce(r.name, '?') FROM {table} t LEFT JOIN flow_run r ON r.id = {on}"
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        return {name for (name,) in database.execute(query)}


@pytest.mark.parametrize(
    ("days", "seconds", "names"),
    [(_KEPT_DAYS, 120, {"just kept", "new"}), (0, 15, {"old", "just kept", "new"})],
)
def test_old_runs_are_deleted(place: Workplace, days: int, seconds: int, names: set[str]) -> None:
    done = place.python("-c", _SERVES, str(seconds), MCVRP_KEEP_RUNS_DAYS=str(days))
    assert done.returncode == 0, done.stderr
    for table in ("flow_run", "log", "artifact"):
        assert kept(place, table) == names
