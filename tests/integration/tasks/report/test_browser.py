"""The report in a real browser: it sorts, folds, fits a phone and a desktop, and prints everything."""

from __future__ import annotations

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import read_results, write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.results import results_frame
from mcvrp.tasks.report.page import KeyFigure, Link, Page, StageLine, render
from mcvrp.tasks.report.paper import paper_tables
from mcvrp.tasks.report.tables import benchmark_table
from tests.support.browser import Browser
from tests.support.paper_shaped import METHODS, paper_shaped

SIZES = (20, 100, 400)
FIRST = "#table tbody:nth-of-type(1)"
VISIBLE = "[...document.querySelectorAll('#table tbody tr')].filter(row => row.offsetParent !== null).length"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report with all methods at three sizes, without pictures."""
    folder = tmp_path_factory.mktemp("report")
    store = Store.open(folder / "store")
    write_results(store, "b", paper_shaped(City.uniform(500, seed=1), instances=2, sizes=SIZES))
    results = results_frame(read_results(store, "b"))
    text = "a text of some length, as settings and reasons are, " * 3
    document = Page(
        "MCVRP: shape",
        text,
        [KeyFigure("1.23 %", "Greedy: gap to HGS", text)] * 4,
        [StageLine("Benchmark", ", ".join(METHODS))],
        (benchmark_table(results, None), paper_tables(results)[3]),
        [],
        [],
        '{"run": "b"}',
        [Link("table.csv", "a-long-name-" * 12)],
        "s3://bucket/" + "a-long-prefix-" * 12,
    )
    (folder / "report.html").write_text(render(document))
    return (folder / "report.html").as_uri()


def methods(browser: Browser, group: int) -> list[str]:
    """Return the methods of one size in the order in which they stand."""
    rows = f"#table tbody:nth-of-type({group}) th[scope=row]"
    found = browser.evaluate(f"[...document.querySelectorAll('{rows}')].map(cell => cell.textContent)")
    assert isinstance(found, list)
    return found


def costs(browser: Browser) -> list[float]:
    """Return the mean costs of the first size from top to bottom; a method without has none."""
    cells = f"[...document.querySelectorAll('{FIRST} tr:not(.size)')].map(row => row.cells[2].dataset.value)"
    return [float(value) for value in browser.evaluate(f"{cells}.filter(value => value !== undefined)")]


def test_a_click_on_a_heading_sorts_within_each_size(browser: Browser, page: str) -> None:
    """Ascending, descending, back; no row leaves its size; what has no value stays below."""
    browser.open(page)
    before = [methods(browser, group) for group in (1, 2, 3)]
    head = "#table thead th:nth-child(3)"
    browser.click(f"{head} button")
    assert browser.evaluate(f"document.querySelector('{head}').getAttribute('aria-sort')") == "ascending"
    assert costs(browser) == sorted(costs(browser))
    assert [sorted(methods(browser, group)) for group in (1, 2, 3)] == [sorted(names) for names in before]
    assert methods(browser, 1)[-1].startswith("LKH-3")
    browser.click(f"{head} button")
    assert costs(browser) == sorted(costs(browser), reverse=True)
    assert methods(browser, 1)[-1].startswith("LKH-3")
    browser.click(f"{head} button")
    assert [methods(browser, group) for group in (1, 2, 3)] == before


def test_the_keyboard_sorts_and_unfolds(browser: Browser, page: str) -> None:
    """Headings and sizes are buttons that take the focus and Enter or the space bar."""
    browser.open(page)
    browser.evaluate("document.querySelector('#table thead th:nth-child(3) button').focus()")
    browser.press("Enter")
    assert costs(browser) == sorted(costs(browser))
    size = "#table tbody:nth-of-type(2)"
    browser.evaluate(f"document.querySelector('{size} button').focus()")
    assert browser.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"
    browser.press(" ")
    assert browser.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert browser.evaluate(f"document.querySelector('{size} th[scope=row]').offsetParent !== null")


def test_a_long_table_shows_its_first_size_and_prints_all(browser: Browser, page: str) -> None:
    """75 rows of three sizes: folded on the screen, whole on paper and at the push of a button."""
    browser.open(page)
    rows = sum(len(samples) for samples, *_ in METHODS.values())
    assert browser.evaluate(VISIBLE) == rows + len(SIZES)
    browser.print_media(True)
    assert browser.evaluate(VISIBLE) == len(SIZES) * (rows + 1)
    browser.print_media(False)
    browser.click("button.all")
    assert browser.evaluate(VISIBLE) == len(SIZES) * (rows + 1)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_window(browser: Browser, page: str, width: int) -> None:
    """Nothing but tables scrolls sideways; on a phone the method stays in sight while they do."""
    browser.open(page, width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.evaluate("document.querySelector('#table').parentElement.scrollLeft = 300")
    left = browser.evaluate(f"document.querySelector('{FIRST} th[scope=row]').getBoundingClientRect().left")
    assert left >= 0
