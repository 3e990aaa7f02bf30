"""A real browser for tests: Debian's Chromium without a window, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.shared import unavailable

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_MILLISECONDS = 200_000  # of a machine that is busy with other tests


# Not of the session: while Playwright is there its event loop runs in this thread, where `asyncio.run` fails
# for the tests of other modules in the same process.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; skips if it is not installed, fails in CI."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        unavailable("Chromium is not installed (apt: chromium)")
    expect.set_options(timeout=_MILLISECONDS)
    sandbox = os.geteuid() != 0  # Chromium has none for root
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=program, chromium_sandbox=sandbox, timeout=_MILLISECONDS
        ) as chromium,
    ):
        yield chromium


def new_page(browser: Browser, width: int = 1280) -> Page:
    """Return an empty page, ``width`` by 900 pixels, with a session of its own; a narrow one is a phone's."""
    page = browser.new_page(viewport={"width": width, "height": 900}, is_mobile=width < 700)
    page.set_default_timeout(_MILLISECONDS)
    return page
