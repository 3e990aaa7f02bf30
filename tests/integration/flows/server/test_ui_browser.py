"""The Prefect UI in a real browser: a person fills in the form, starts a run, reads its artifact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from tests.support.browser import Browser, BrowserError
from tests.support.command import Workplace
from tests.support.driving import drive
from tests.support.ui import Ui, mcvrp_ui, until

pytestmark = pytest.mark.slow
_marks = count()
_PICTURES = "[...document.images].filter(i => i.src.startsWith('data:') && i.naturalWidth > 100).length"
_TIMEOUT = 200.0  # seconds, of a machine that is busy with other tests
_LABEL = "//a[contains(@href, '/deployments/deployment/')][normalize-space()='label']"
_COUNT = "//*[normalize-space()='Count']/following::input[1]"  # labels are not tied to their inputs


def place(browser: Browser, xpath: str) -> str:
    """Return a selector of the first element that ``xpath`` finds, once it is there."""
    mark = f"found-{next(_marks)}"
    found = f"document.evaluate({json.dumps(xpath)}, document, null, 9, null).singleNodeValue"
    browser.wait_for(
        f"(() => {{ const e = {found}; e && e.setAttribute('data-mark', '{mark}'); return !!e; }})()"
    )
    return f"[data-mark='{mark}']"


def click(browser: Browser, xpath: str) -> None:
    browser.settled()  # what a page draws last may take the place of what it drew first
    browser.click(place(browser, xpath))


def fill(browser: Browser, xpath: str, text: str) -> None:
    """Write ``text`` in place of what an input holds, again when the form fills itself in later."""
    write = f"document.execCommand('insertText', false, {json.dumps(text)})"

    def written() -> bool:
        browser.settled()
        selector = json.dumps(place(browser, xpath))
        if browser.evaluate(f"document.querySelector({selector}).value") == text:
            return True
        browser.evaluate(
            f"(() => {{ const e = document.querySelector({selector}); e.focus(); e.select(); {write}; }})()"
        )
        return False

    until(f"{text!r} in {xpath}", _TIMEOUT, written)


def shows(browser: Browser, text: str) -> None:
    """Wait until the page shows ``text``."""
    try:
        browser.wait_for(f"document.body.innerText.includes({json.dumps(text)})")
    except BrowserError:
        raise AssertionError(f"{text!r} is not in: {browser.evaluate('document.body.innerText')}") from None


def runs(ui: Ui, name: str) -> list[dict[str, Any]]:
    """Return the runs of the deployment ``name``."""
    found: list[dict[str, Any]] = ui.api(
        "/flow_runs/filter", {"deployments": {"id": {"any_": [ui.deployment(name)["id"]]}}}
    )
    return found


def artifacts(ui: Ui, run: str) -> list[dict[str, Any]]:
    """Return the Markdown artifacts of a flow run."""
    of_run = {"flow_run_id": {"any_": [run]}, "type": {"any_": ["markdown"]}}
    found: list[dict[str, Any]] = ui.api("/artifacts/filter", {"artifacts": of_run})
    return found


def read_in_browser(browser: Browser, ui: Ui, text: str, *also: str) -> None:
    """Open the newest artifact whose Markdown holds ``text``; it shows that, ``also``, and its pictures."""
    found = ui.api(
        "/artifacts/filter", {"artifacts": {"type": {"any_": ["markdown"]}}, "sort": "CREATED_DESC"}
    )
    page = next(artifact for artifact in found if text in artifact["data"])
    browser.open(f"{ui.page}/artifacts/artifact/{page['id']}")
    for words in (text.removeprefix("# "), *also):
        shows(browser, words)
    inline = page["data"].count("data:image")
    browser.wait_for(f"{_PICTURES} >= {inline}")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace.new(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def ui(workplace: Workplace, browser: Browser) -> Iterator[Ui]:
    """A UI that serves the smoke preset, opened by the link that it prints; its city is made."""
    with mcvrp_ui(workplace) as ui:
        browser.open(ui.link)
        shows(browser, "Dashboard")
        assert ui.ended(ui.start("city"), _TIMEOUT)["state_type"] == "COMPLETED"
        yield ui


def test_a_page_of_somebody_else_gets_nothing(browser: Browser, ui: Ui) -> None:
    """In the browser that is let in: neither an answer, nor a run, whichever way the page asks."""
    city = ui.deployment("city")
    start = f"{ui.page}/api/deployments/{city['id']}/create_flow_run"
    body = json.dumps({"parameters": city["parameters"], "state": {"type": "SCHEDULED"}})
    before = len(runs(ui, "city"))
    browser.open("data:text/html,<title>theirs</title>")
    for options in (
        {"mode": "no-cors"},  # as a form does: the request is sent, with what the browser knows of the server
        {"headers": {"Content-Type": "application/json"}},
        {"credentials": "include", "headers": {"Content-Type": "text/plain"}},
    ):
        asked = json.dumps({"method": "POST", "body": body} | options)
        told = browser.evaluate(f"fetch({json.dumps(start)}, {asked}).then(r => r.text(), e => 'refused')")
        assert told in ("", "refused")
    assert len(runs(ui, "city")) == before
    browser.open(f"{ui.page}/runs")
    shows(browser, "city smoke, 50 customers")


def test_a_label_run_from_the_form_to_its_artifact(
    browser: Browser, ui: Ui, workplace: Workplace, tmp_path: Path
) -> None:
    """A wrong number is refused on the page; the right one makes 90 labels and a page about them."""
    browser.open(f"{ui.page}/deployments")
    click(browser, _LABEL)
    click(browser, "//button[normalize-space()='Run']")
    click(browser, "//*[self::a or self::button][normalize-space()='Custom run']")
    shows(browser, "Instances of each size")
    fill(browser, _COUNT, "-3")
    click(browser, "//button[normalize-space()='Submit']")
    shows(
        browser,
        "Validation failed for field 'label.count'. Failure reason: -3 is less than the minimum of 1",
    )
    browser.screenshot(tmp_path / "refused.png")
    browser.open(browser.evaluate("location.href"))  # the message lies over the button
    fill(browser, _COUNT, "30")
    click(browser, "//button[normalize-space()='Submit']")
    shows(browser, "label smoke n=20-22, 3 partitions")
    (run,) = runs(ui, "label")
    assert run["parameters"]["label"]["count"] == 30
    # The word "Completed" is in the lists of states, too: only the API says when the run has ended.
    assert ui.ended(run["id"], _TIMEOUT)["state_type"] == "COMPLETED"
    (page,) = [found for found in artifacts(ui, run["id"]) if "90 solved instances" in found["data"]]
    click(browser, "//a[normalize-space()='label smoke n=20-22, 3 partitions']")
    shows(browser, "Completed")
    browser.screenshot(tmp_path / "run.png")
    click(browser, "//li[@id='artifacts']")
    click(browser, f"//a[contains(@href, '{page['id']}')]")
    shows(browser, "90 solved instances")
    browser.wait_for(_PICTURES)
    shows(browser, str(workplace.store / "labels" / "smoke"))
    browser.screenshot(tmp_path / "artifact.png")


def test_a_cancelled_pipeline_ends_and_goes_on(
    browser: Browser, ui: Ui, workplace: Workplace, tmp_path: Path
) -> None:
    """Nothing of it stays at work; started again it keeps what was done, and each stage leaves a page."""
    spec = ui.deployment("pipeline")["parameters"]["spec"]
    spec["label"] |= {"dataset": "slow", "count": 20, "iterations": 500, "shard_rows": 5, "held_out": 2}
    spec["train"] |= {"dataset": "slow", "held_out": "slow-held-out", "phases": spec["train"]["phases"][:2]}
    spec["benchmark"] |= {"methods": ["hgs", "fm-gs"], "heuristic_samples": [1]}
    idle = set(workplace.processes())
    run = ui.start("pipeline", spec=spec)
    labels = workplace.store / "labels" / "slow"
    shard = until("a shard", _TIMEOUT, lambda: next(labels.rglob("part-*.parquet"), None))
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
        read_in_browser(browser, ui, text, *also)
        browser.screenshot(tmp_path / f"{text.split()[1]}.png")


def test_a_night_from_its_routes_to_its_page(
    browser: Browser, ui: Ui, workplace: Workplace, tmp_path: Path
) -> None:
    """The pipeline's model is tuned on routes, and compared; none joins it; run again it changes nothing."""
    store = Store.open(workplace.store)
    drive(store, load_city(store, "smoke"), days=12)
    spec = ui.deployment("nightly")["parameters"]["nightly"] | {
        "quiet_seconds": 0
    }  # nobody writes to the file
    night = ui.start("nightly", nightly=spec)
    ui.reaches(night, "Running")
    refused = ui.ended(ui.start("nightly"))
    assert (refused["state_type"], refused["state"]["message"]) == (
        "CANCELLED",
        "Deployment concurrency limit reached.",
    )
    assert ui.ended(night, _TIMEOUT)["state_type"] == "COMPLETED"
    read_in_browser(browser, ui, "# Night of smoke", "12", "Champion against challenger")
    browser.screenshot(tmp_path / "night.png")
    before = {path: store.get(path) for path in store.list("")}
    assert ui.ended(ui.start("nightly", nightly=spec), _TIMEOUT)["state_type"] == "COMPLETED"
    assert {path: store.get(path) for path in store.list("")} == before
