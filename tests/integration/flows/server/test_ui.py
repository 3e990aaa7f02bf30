"""Tests of `mcvrp ui` with its real server and runs: in a browser, refused values, schedules, stopping."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import new_page
from tests.support.command import SPRUNG, Workplace
from tests.support.shared import until
from tests.support.ui import Ui, mcvrp_ui

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
NAMES = {"pipeline", "city", "label", "train", "attention", "benchmark", "nightly", "solve"}
TRAPS = ("model", "tasks", "json", "calendar", "secrets")
_TIMEOUT = 200.0  # seconds, of a machine that is busy with other tests
_PICTURES = "[...document.images].filter(i => i.src.startsWith('data:') && i.naturalWidth > 100).length"
_LABEL = "//a[contains(@href, '/deployments/deployment/')][normalize-space()='label']"
_COUNT = "//*[normalize-space()='Count']/following::input[1]"  # labels are not tied to their inputs


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


def shows(page: Page, *texts: str) -> None:
    for text in texts:
        expect(page.locator("body")).to_contain_text(text, use_inner_text=True)


def cut_off(page: Page) -> list[str]:
    """Return the headings of tables that are wider than their container, which has no scroll bar."""
    wide = "tables => tables.filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth)"
    headings: list[str] = page.locator("table").evaluate_all(f"{wide}.map(t => t.rows[0].innerText)")
    return headings


def submit(page: Page, was: int, count: str) -> None:
    field = page.locator(_COUNT).first  # two match while the form is drawn
    expect(field).to_have_value(str(was))
    field.fill(count)
    page.get_by_role("button", name="Submit").click()


def runs(ui: Ui, name: str) -> list[dict[str, Any]]:
    of_deployment = {"deployments": {"id": {"any_": [ui.deployment(name)["id"]]}}}
    return list(ui.api("/flow_runs/filter", of_deployment))


def read(page: Page, ui: Ui, text: str, *also: str) -> None:
    newest = {"artifacts": {"type": {"any_": ["markdown"]}}, "sort": "CREATED_DESC"}
    artifact = next(each for each in ui.api("/artifacts/filter", newest) if text in each["data"])
    page.goto(f"{ui.page}/artifacts/artifact/{artifact['id']}")
    shows(page, text.removeprefix("# "), *also)
    page.wait_for_function(f"{_PICTURES} >= {artifact['data'].count('data:image')}")
    assert cut_off(page) == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace.new(tmp_path_factory.mktemp("ui"))
    place.set_traps(TRAPS)  # the current folder of the server and of all runs
    return place


@pytest.fixture(scope="module")
def ui(place: Workplace) -> Iterator[Ui]:
    """A UI with the smoke preset and its city, for all tests that don't end it."""
    with mcvrp_ui(place, PYTHONWARNINGS="default::RuntimeWarning") as ui:
        made = ui.ended(ui.start("city"))
        assert (made["state_type"], made["name"]) == ("COMPLETED", "city smoke, 50 customers")
        yield ui
        assert ui.stop() == 0
        said = ui.errors.read_text()
        assert SPRUNG not in said
        assert "RuntimeWarning" not in said
        until("the end of all processes", 180, lambda: stopped(place))


@pytest.fixture(scope="module")
def page(browser: Browser, ui: Ui) -> Iterator[Page]:
    with new_page(browser, 1300) as page:
        page.goto(f"{ui.page}/")
        page.locator("input[type=password]").fill("mcvrp:guess")
        page.get_by_role("button", name="Login").click()
        refused = re.compile("Invalid credentials|Authentication failed")  # both of Prefect's UIs
        expect(page.locator("body")).to_contain_text(refused, use_inner_text=True)
        page.locator("input[type=password]").fill(ui.password)
        page.get_by_role("button", name="Login").click()
        shows(page, "Dashboard")
        yield page


def test_a_label_run_from_the_form_to_its_artifact(page: Page, ui: Ui, place: Workplace) -> None:
    known = {run["id"] for run in runs(ui, "label")}
    was = ui.deployment("label")["parameters"]["label"]["count"]
    page.goto(f"{ui.page}/deployments")
    page.locator(_LABEL).click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run", exact=True).click()
    shows(page, "Number of instances per size")
    submit(page, was, "-3")
    reason = "-3 is less than the minimum of 1"
    shows(page, f"Validation failed for field 'label.count'. Failure reason: {reason}")
    page.reload()  # the message covers the button
    submit(page, was, "30")
    shows(page, "label smoke n=20-22, 3 partitions")
    (run,) = [run for run in runs(ui, "label") if run["id"] not in known]
    assert run["parameters"]["label"]["count"] == 30
    # The page contains "Completed" in lists of states, too, so the end of the run is read from the API.
    assert ui.ended(run["id"], _TIMEOUT)["state_type"] == "COMPLETED"
    of_run = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}, "type": {"any_": ["markdown"]}}}
    (artifact,) = [a for a in ui.api("/artifacts/filter", of_run) if "labels: **90**" in a["data"]]
    page.get_by_role("link", name="label smoke n=20-22, 3 partitions", exact=True).first.click()
    shows(page, "Completed")
    page.locator("#artifacts").click()
    page.locator(f"a[href*='{artifact['id']}']").first.click()
    shows(page, "labels: 90", str(place.store / "labels" / "smoke"))
    assert cut_off(page) == []


def test_a_cancelled_pipeline_ends_and_resumes(page: Page, ui: Ui, place: Workplace) -> None:
    spec = ui.deployment("pipeline")["parameters"]["spec"]
    spec["label"] |= {"dataset": "slow", "count": 20, "iterations": 500, "shard_rows": 5, "held_out": 2}
    spec["train"] |= {"dataset": "slow", "held_out": "slow-held-out", "phases": spec["train"]["phases"][1:2]}
    spec["benchmark"] |= {"methods": ["hgs", "fm-gs"], "heuristic_samples": [1]}
    idle = set(place.processes())
    run = ui.start("pipeline", spec=spec)
    labels = place.store / "labels" / "slow"
    shard = until("a shard", _TIMEOUT, lambda: next(labels.rglob("rows-*.parquet"), None))
    ui.cancel(run)
    assert ui.ended(run, _TIMEOUT)["state_type"] == "CANCELLED"
    until("the end of its processes", 60, lambda: set(place.processes()) <= idle)
    open_runs = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}}}
    until("the end of its stages", 60, lambda: not ui.api("/flow_runs/filter", open_runs))
    made = shard.stat().st_mtime_ns
    assert ui.ended(ui.start("pipeline", spec=spec), _TIMEOUT)["state_type"] == "COMPLETED"
    assert shard.stat().st_mtime_ns == made
    for text, also in {
        "# Training run smoke": ("II-A", "training/smoke"),
        "# Benchmark smoke": ("FM-MCVRP (GS)", "report.html"),
        "# Pipeline smoke": ("50 customers", "FM-MCVRP (GS)"),
    }.items():
        read(page, ui, text, *also)


def test_a_wrong_value_is_refused_by_the_form_or_at_once(ui: Ui) -> None:
    spec = ui.deployment("label")["parameters"]["label"]
    with pytest.raises(AssertionError, match=r"409.*label\.count.*-3"):
        ui.start("label", label=spec | {"count": -3})
    run = ui.ended(ui.start("label", label=spec | {"smallest": 30}))
    failed(run, "label: smallest = 30 is above largest = 22")
    assert run["name"] == "label, refused"
    run = ui.ended(ui.start("label", label=spec | {"dataset": "other"}, city="nowhere"))
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


def test_a_restart_keeps_schedules_and_ends_what_was_open(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SIGTERM ends the server and all runs, in the background, too; the next one closes what had begun.

    Schedules are kept that were made or changed in the UI; of a new one, the night's is there and inactive.
    """
    place = Workplace.new(tmp_path_factory.mktemp("restart"))
    with mcvrp_ui(place, background=True) as ui:
        assert {deployment["name"] for deployment in ui.api("/deployments/filter", {})} == NAMES
        nightly, city = ui.deployment("nightly"), ui.deployment("city")
        (night,) = nightly["schedules"]
        assert (night["schedule"]["cron"], night["active"]) == ("0 2 * * *", False)
        ui.api(f"/deployments/{nightly['id']}/schedules/{night['id']}", {"active": True}, "PATCH")
        schedule = {"schedule": {"cron": "0 3 * * *", "timezone": "UTC"}, "active": False}
        ui.api(f"/deployments/{city['id']}/schedules", [schedule])
        run = ui.start("city", city=city["parameters"]["city"] | {"name": "other"})
        assert ui.ended(run)["state_type"] == "COMPLETED"
        spec = ui.deployment("label")["parameters"]["label"]
        ui.reaches(ui.start("label", label=spec | {"iterations": 100_000}, city="other"), "Running")
        begun = ui.start("city")
        ui.reaches(begun, "Submitting")
        assert ui.stop(signal.SIGTERM) == 0
        until("the end of all processes", 180, lambda: stopped(place))
    with mcvrp_ui(place, "--set", "nightly.instances=5") as ui:
        (night,) = ui.deployment("nightly")["schedules"]
        assert (night["schedule"]["cron"], night["active"]) == ("0 2 * * *", True)
        (kept,) = ui.deployment("city")["schedules"]
        assert (kept["schedule"]["cron"], kept["active"]) == ("0 3 * * *", False)
        assert ui.ended(begun)["state_type"] == "CRASHED"
