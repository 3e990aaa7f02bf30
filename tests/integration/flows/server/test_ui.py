"""Tests of `mcvrp ui` with its real server and runs: refused values, schedules, stopping."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.support.command import SPRUNG, Workplace
from tests.support.shared import until
from tests.support.ui import Ui, mcvrp_ui

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
NAMES = {"pipeline", "city", "label", "train", "attention", "benchmark", "nightly", "improve", "solve"}
TRAPS = ("model", "tasks", "json", "calendar", "secrets")


def failed(run: dict[str, Any], message: str) -> None:
    assert run["state_type"] == "FAILED"
    assert run["state"]["message"].startswith(message)


def stopped(place: Workplace) -> bool:
    """Return whether nothing of `mcvrp ui` runs; agents of Ray outlive it for a minute."""
    return all(not psutil.pid_exists(pid) or "ray" in _line(pid) for pid in place.processes())


def _line(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return "ray"


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """A UI with the smoke preset and its city."""
    place = Workplace.new(tmp_path_factory.mktemp("ui"))
    place.set_traps(TRAPS)  # the current folder of the server and of all runs
    with mcvrp_ui(place) as ui:
        made = ui.ended(ui.start("city"))
        assert (made["state_type"], made["name"]) == ("COMPLETED", "city smoke, 50 customers")
        yield ui
        assert ui.stop() == 0
        assert SPRUNG not in ui.errors.read_text()
        until("the end of all processes", 180, lambda: stopped(place))


def test_a_wrong_value_is_refused_by_the_form_or_at_once(ui: Ui) -> None:
    spec = ui.deployment("label")["parameters"]["label"]
    with pytest.raises(AssertionError, match=r"409.*label\.count.*-3"):
        ui.start("label", label=spec | {"count": -3})
    run = ui.ended(ui.start("label", label=spec | {"smallest": 30}))
    failed(run, "label: smallest = 30 is above largest = 22")
    assert run["name"] == "label, refused"
    failed(ui.ended(ui.start("train")), "dataset 'smoke' has no labels of 20-22 customers")
    run = ui.ended(ui.start("label", city="nowhere"))
    failed(run, "no city 'nowhere' in ")
    lines = ui.logs(run["id"])
    assert any(line.startswith("Finished in state") for line in lines)
    assert not [line for line in lines if "Traceback" in line or "exception" in line]


def test_its_server_deletes_old_runs_and_events(ui: Ui) -> None:
    server = ui.api("/admin/settings")["server"]
    vacuum = server["services"]["db_vacuum"]
    assert set(vacuum["enabled"]) == {"events", "flow_runs"}
    assert (vacuum["retention_period"], server["events"]["retention_period"]) == ("P90D", "P7D")


def test_a_cron_schedule_fires(ui: Ui) -> None:
    id = ui.deployment("city")["id"]
    schedule = {
        "schedule": {"cron": "* * * * *", "timezone": "UTC"},
        "active": True,
        "parameters": {"store": None, "city": {"addresses": None}},  # what Prefect's page sends
    }
    (made,) = ui.api(f"/deployments/{id}/schedules", [schedule])
    body = {"deployments": {"id": {"any_": [id]}}}

    def fired() -> list[dict[str, Any]]:
        runs = ui.api("/flow_runs/filter", body)
        return [run for run in runs if run["auto_scheduled"] and run["state_type"] == "COMPLETED"]

    run = until("a run of the schedule", 240, fired)[0]
    assert run["name"] == "city smoke, 50 customers"
    ui.api(f"/deployments/{id}/schedules/{made['id']}", {"active": False}, "PATCH")


def test_a_cancelled_run_keeps_what_is_finished_and_the_next_one_begins(ui: Ui) -> None:
    spec = ui.deployment("label")["parameters"]["label"] | {"dataset": "cancelled"}
    slow = ui.start("label", label=spec | {"iterations": 100_000})
    ui.reaches(slow, "Running")
    waiting = ui.start("label", label=spec | {"dataset": "quick", "held_out": 0})
    ui.reaches(waiting, "AwaitingConcurrencySlot")
    of_run = {"artifacts": {"flow_run_id": {"any_": [slow]}, "type": {"any_": ["progress"]}}}
    # A process that is busy with imports does not answer Prefect within its second: the run is then crashed.
    until("its progress", 120, lambda: ui.api("/artifacts/filter", of_run))
    ui.cancel(slow)
    assert ui.ended(slow)["state_type"] == "CANCELLED"
    assert any("what is finished is kept, start again to resume" in line for line in ui.logs(slow))
    assert ui.ended(waiting)["state_type"] == "COMPLETED"


@pytest.mark.parametrize("background", [False, True])
def test_sigterm_ends_the_server_and_all_runs(
    background: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Workplace.new(tmp_path_factory.mktemp("sigterm"))
    with mcvrp_ui(place, background=background) as ui:
        ui.ended(ui.start("city"))
        spec = ui.deployment("label")["parameters"]["label"]
        ui.reaches(ui.start("label", label=spec | {"iterations": 100_000}), "Running")
        assert ui.stop(signal.SIGTERM) == 0
        until("the end of all processes", 180, lambda: stopped(place))


def test_schedules_are_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Those that were made or changed in the UI; of a new one, the night's is there and inactive."""
    place = Workplace.new(tmp_path_factory.mktemp("schedules"))
    with mcvrp_ui(place, PYTHONWARNINGS="default::RuntimeWarning") as ui:
        assert {deployment["name"] for deployment in ui.api("/deployments/filter", {})} == NAMES
        (night,) = ui.deployment("nightly")["schedules"]
        assert (night["schedule"]["cron"], night["active"]) == ("0 2 * * *", False)
        ui.api(
            f"/deployments/{ui.deployment('nightly')['id']}/schedules/{night['id']}",
            {"active": True},
            "PATCH",
        )
        schedule = {"schedule": {"cron": "0 3 * * *", "timezone": "UTC"}, "active": False}
        ui.api(f"/deployments/{ui.deployment('city')['id']}/schedules", [schedule])
        assert ui.stop(signal.SIGTERM) == 0
        assert ui.errors.read_text().splitlines()[2:] == []  # after its server and page: no warning
    with mcvrp_ui(place, "--set", "nightly.instances=5") as ui:
        said = ui.errors.read_text()
        assert "nightly is scheduled: its runs now have" in said
        assert "nightly is scheduled for city 'smoke', which the store lacks" in said
        (night,) = ui.deployment("nightly")["schedules"]
        assert (night["schedule"]["cron"], night["active"]) == ("0 2 * * *", True)
        (kept,) = ui.deployment("city")["schedules"]
        assert (kept["schedule"]["cron"], kept["active"]) == ("0 3 * * *", False)
