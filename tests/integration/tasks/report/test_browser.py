"""The report in a real browser: it fits phone and desktop, and prints everything."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from mcvrp.tasks.report.formats import Page as Document, render_page
from mcvrp.tasks.report.paper import paper_tables
from mcvrp.tasks.report.tables import benchmark_table
from tests.support.browser import new_page
from tests.support.results import paper_shaped

SIZES = (20, 100, 400)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    results = paper_shaped(SIZES)
    text = "a text of some length, as settings and reasons are, " * 3
    document = Document(
        "MCVRP: shape",
        text,
        key_figures={"mean gap to HGS": "1.23 %", "LKH-3 without answer": text},
        tables=(benchmark_table(results), *paper_tables(results)),
        configuration='{"run": "b"}',
        links=[("table.csv", "a-long-name-" * 12)],
        address="s3://bucket/" + "a-long-prefix-" * 12,
    )
    (folder / "report.html").write_text(render_page(document))
    return (folder / "report.html").as_uri()


def test_further_tables_unfold_and_all_are_printed(browser: Browser, report: str) -> None:
    """The paper's tables are behind their captions on the screen, by mouse or keyboard, and not on paper."""
    with new_page(browser) as page:
        page.goto(report)
        expect(page.locator("#table")).to_be_visible()
        expect(page.locator("#am")).to_be_hidden()
        page.locator("summary", has_text="attention model").press("Enter")
        expect(page.locator("#am")).to_be_visible()
        expect(page.locator("#training")).to_be_hidden()
        page.emulate_media(media="print")
        expect(page.locator("#training")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_window(browser: Browser, report: str, width: int) -> None:
    """Only tables scroll horizontally; on a phone the method stays visible."""
    with new_page(browser, width) as page:
        page.goto(report)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("#table").evaluate("table => { table.parentElement.scrollLeft = 300 }")
        method = page.locator("#table tbody tr:first-child th:nth-child(2)")
        assert method.evaluate("e => e.getBoundingClientRect().left") >= 0
