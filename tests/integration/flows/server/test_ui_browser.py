"""Tests of the Prefect UI in a browser: fill in a form, start a run, read its artifact."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import new_page
from tests.support.command import Workplace
from tests.support.shared import until
from tests.support.ui import Ui, mcvrp_ui

pytestmark = pytest.mark.slow
_TIMEOUT = 200.0  # seconds, of a machine that is busy with other tests
_PICTURES = "[...document.images].filter(i => i.src.startsWith('data:') && i.naturalWidth > 100).length"
_LABEL = "//a[contains(@href, '/deployments/deployment/')][normalize-space()='label']"
_COUNT = "//*[normalize-space()='Count']/following::input[1]"  # labels are not tied to their inputs


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
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace.new(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def ui(workplace: Workplace) -> Iterator[Ui]:
    """A UI with the smoke preset and its city."""
    with mcvrp_ui(workplace) as ui:
        assert ui.ended(ui.start("city"), _TIMEOUT)["state_type"] == "COMPLETED"
        yield ui


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


def test_a_label_run_from_the_form_to_its_artifact(page: Page, ui: Ui, workplace: Workplace) -> None:
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
    (run,) = runs(ui, "label")
    assert run["parameters"]["label"]["count"] == 30
    # The page contains "Completed" in lists of states, too, so the end of the run is read from the API.
    assert ui.ended(run["id"], _TIMEOUT)["state_type"] == "COMPLETED"
    of_run = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}, "type": {"any_": ["markdown"]}}}
    (artifact,) = [a for a in ui.api("/artifacts/filter", of_run) if "labels: **90**" in a["data"]]
    page.get_by_role("link", name="label smoke n=20-22, 3 partitions", exact=True).first.click()
    shows(page, "Completed")
    page.locator("#artifacts").click()
    page.locator(f"a[href*='{artifact['id']}']").first.click()
    shows(page, "labels: 90", str(workplace.store / "labels" / "smoke"))
    assert cut_off(page) == []


def test_a_cancelled_pipeline_ends_and_resumes(page: Page, ui: Ui, workplace: Workplace) -> None:
    spec = ui.deployment("pipeline")["parameters"]["spec"]
    spec["label"] |= {"dataset": "slow", "count": 20, "iterations": 500, "shard_rows": 5, "held_out": 2}
    spec["train"] |= {"dataset": "slow", "held_out": "slow-held-out", "phases": spec["train"]["phases"][:2]}
    spec["benchmark"] |= {"methods": ["hgs", "fm-gs"], "heuristic_samples": [1]}
    idle = set(workplace.processes())
    run = ui.start("pipeline", spec=spec)
    labels = workplace.store / "labels" / "slow"
    shard = until("a shard", _TIMEOUT, lambda: next(labels.rglob("rows-*.parquet"), None))
    ui.cancel(run)
    assert ui.ended(run, _TIMEOUT)["state_type"] == "CANCELLED"
    until("the end of its processes", 60, lambda: set(workplace.processes()) <= idle)
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
