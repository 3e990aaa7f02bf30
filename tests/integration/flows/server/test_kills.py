"""Runs of `mcvrp ui` whose process or runner is killed, and started again."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.processes import free_port
from tests.support.command import Workplace
from tests.support.shared import running, until
from tests.support.ui import Ui, mcvrp_ui

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
# Labels of half a minute, in files of seconds.
SPEC = {"dataset": "d", "count": 100, "iterations": 400, "shard_rows": 20, "held_out": 0}


def labels(place: Workplace) -> str:
    return Dataset.open(Store.open(place.store, writable=False), "d").fingerprint()


def label(ui: Ui, **changes: Any) -> str:
    return ui.start("label", label=ui.deployment("label")["parameters"]["label"] | SPEC | changes)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The labels of a command that nothing has happened to."""
    place = Workplace.new(tmp_path_factory.mktemp("undisturbed"))
    options = [word for field, value in SPEC.items() for word in ("--set", f"label.{field}={value}")]
    assert place.mcvrp("city", "create", "--preset", "smoke").returncode == 0
    done = place.mcvrp("label", "--no-prefect", "--preset", "smoke", *options)
    assert done.returncode == 0, done.stderr
    return labels(place)


@pytest.mark.parametrize("killed", ["run", "serve"])
def test_after_a_kill_the_same_run_ends_with_equal_labels(
    killed: str, undisturbed: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The run's process or `mcvrp ui` is killed; the interrupted run is on record."""
    place, port = Workplace.new(tmp_path_factory.mktemp(killed)), free_port()
    with mcvrp_ui(place, port=port) as ui:
        ui.ended(ui.start("city"))
        slow = label(ui)
        until("a shard", 240, lambda: any((place.store / "labels").rglob("rows-*.parquet")))
        if killed == "serve":
            ui.process.send_signal(signal.SIGKILL)
            ui.process.wait(60)
        else:
            (victim,) = running("prefect.engine", ui.process.pid)
            victim.send_signal(signal.SIGKILL)
            assert ui.ended(slow)["state_type"] == "CRASHED"
        made = {path: path.stat().st_mtime_ns for path in place.store.rglob("rows-*.parquet")}
        if killed == "run":
            assert ui.ended(label(ui), 400)["state_type"] == "COMPLETED"
    if killed != "run":
        with mcvrp_ui(place, port=free_port()) as ui:
            again = label(ui)
            assert ui.ended(slow, 400)["state_type"] in ("CRASHED", "COMPLETED")
            assert ui.ended(again, 400)["state_type"] == "COMPLETED"
    assert made.items() <= {p: p.stat().st_mtime_ns for p in place.store.rglob("rows-*.parquet")}.items()
    assert labels(place) == undisturbed


def test_a_run_that_was_being_started_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`mcvrp ui` stops before the run has sent a heartbeat: it does not stay open for good."""
    place = Workplace.new(tmp_path_factory.mktemp("started"))
    with mcvrp_ui(place) as ui:
        run = ui.start("city")
        ui.reaches(run, "Submitting")
        ui.stop(signal.SIGTERM)
    with mcvrp_ui(place) as ui:
        assert ui.ended(run)["state_type"] == "CRASHED"
