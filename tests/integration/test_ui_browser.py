"""The Prefect UI in a real browser: a person fills in the form, starts a run, reads its artifact."""

from __future__ import annotations

import json
import time
from itertools import count
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.command import Workplace
from tests.ui import mcvrp_ui

pytestmark = pytest.mark.slow
_marks = count()
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
    browser.click(place(browser, xpath))


def fill(browser: Browser, xpath: str, text: str) -> None:
    """Write ``text`` in place of what an input holds."""
    selector = json.dumps(place(browser, xpath))
    browser.wait_for(f"document.querySelector({selector}).value !== ''")  # the form fills itself in first
    time.sleep(1.0)  # and once more, when it has read the deployment
    write = f"document.execCommand('insertText', false, {json.dumps(text)})"
    browser.evaluate(
        f"(() => {{ const e = document.querySelector({selector}); e.focus(); e.select(); {write}; }})()"
    )


def shows(browser: Browser, text: str, seconds: float = 60.0) -> None:
    """Wait until the page shows ``text``."""
    until = time.monotonic() + seconds
    while text not in browser.evaluate("document.body.innerText"):
        assert time.monotonic() < until, f"{text!r} is not in: {browser.evaluate('document.body.innerText')}"
        time.sleep(0.5)


def test_a_label_run_from_the_form_to_its_artifact(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """A wrong number is refused on the page; the right one makes 90 labels and a page about them."""
    workplace = Workplace.new(tmp_path_factory.mktemp("browser"))
    with mcvrp_ui(workplace) as ui:
        ui.ended(ui.start("city"))
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
        click(browser, "//a[normalize-space()='label smoke n=20-22, 3 partitions']")
        shows(browser, "Completed", seconds=180)
        browser.screenshot(tmp_path / "run.png")
        click(browser, "//li[@id='artifacts']")
        # the newest is on top: the held-out set's, then the dataset's
        click(browser, "(//a[contains(@href, '/artifacts/')][.//*[normalize-space()='label']])[last()]")
        shows(browser, "90 solved instances")
        pictures = (
            "[...document.images].filter(i => i.src.startsWith('data:') && i.naturalWidth > 100).length"
        )
        browser.wait_for(pictures)
        shows(browser, str(workplace.store / "labels" / "smoke"))
        browser.screenshot(tmp_path / "artifact.png")
