"""The report in a real browser: it sorts, collapses, fits phone and desktop, and prints everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from mcvrp.model.problem import City
from mcvrp.storage.benchmarks import write_results
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import results_frame
from mcvrp.tasks.report.formats import Page as Document, render_page
from mcvrp.tasks.report.paper import paper_tables
from mcvrp.tasks.report.tables import benchmark_table
from tests.support.browser import new_page
from tests.support.paper_shaped import METHODS, paper_shaped

SIZES = (20, 100, 400)
FIRST = "#table tbody:nth-of-type(1)"
COSTS = "#table thead th:nth-child(3)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    store = Store.open(folder / "store")
    rows = list(paper_shaped(City.uniform(500, seed=1), instances=2, sizes=SIZES))
    results = results_frame(write_results(store, "b", rows))
    text = "a text of some length, as settings and reasons are, " * 3
    document = Document(
        "MCVRP: shape",
        text,
        [("1.23 %", "Greedy: gap to HGS", text)] * 4,
        [("Benchmark", ", ".join(METHODS))],
        (benchmark_table(results, None), paper_tables(results)[3]),
        [],
        [],
        '{"run": "b"}',
        [("table.csv", "a-long-name-" * 12)],
        "s3://bucket/" + "a-long-prefix-" * 12,
    )
    (folder / "report.html").write_text(render_page(document))
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(browser: Browser, report: str) -> Iterator[Page]:
    with new_page(browser) as page:
        page.goto(report)
        yield page


def methods(page: Page, group: int) -> list[str]:
    return page.locator(f"#table tbody:nth-of-type({group}) th[scope=row]").all_text_contents()


def costs(page: Page) -> list[float]:
    """Return the mean costs of the first size from top to bottom; methods without are skipped."""
    cells = page.locator(f"{FIRST} tr:not(.size) :nth-child(3)[data-value]")
    return [float(cell.get_attribute("data-value") or "") for cell in cells.all()]


def test_a_click_on_a_heading_sorts_within_each_size(page: Page) -> None:
    """Ascending, descending, original order; rows stay in their size, those without a value at the end."""
    before = [methods(page, group) for group in (1, 2, 3)]
    button = page.locator(COSTS).get_by_role("button")
    button.click()
    expect(page.locator(COSTS)).to_have_attribute("aria-sort", "ascending")
    assert costs(page) == sorted(costs(page))
    assert [sorted(methods(page, group)) for group in (1, 2, 3)] == [sorted(names) for names in before]
    assert methods(page, 1)[-1].startswith("LKH-3")
    button.click()
    assert costs(page) == sorted(costs(page), reverse=True)
    assert methods(page, 1)[-1].startswith("LKH-3")
    button.click()
    assert [methods(page, group) for group in (1, 2, 3)] == before


def test_the_keyboard_sorts_and_unfolds(page: Page) -> None:
    page.locator(COSTS).get_by_role("button").press("Enter")
    assert costs(page) == sorted(costs(page))
    size = page.locator("#table tbody:nth-of-type(2)")
    button = size.get_by_role("button")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.press(" ")
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(size.locator("th[scope=row]").first).to_be_visible()


def test_a_long_table_shows_its_first_size_and_prints_all(page: Page) -> None:
    """75 rows of three sizes: collapsed on screen, complete on paper and after a click."""
    rows = sum(len(samples) for samples, *_ in METHODS.values())
    visible = page.locator("#table tbody tr").filter(visible=True)
    expect(visible).to_have_count(rows + len(SIZES))
    page.emulate_media(media="print")
    expect(visible).to_have_count(len(SIZES) * (rows + 1))
    page.emulate_media(media="screen")
    expect(visible).to_have_count(rows + len(SIZES))
    page.locator("button.all").first.click()
    expect(visible).to_have_count(len(SIZES) * (rows + 1))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_window(browser: Browser, report: str, width: int) -> None:
    """Only tables scroll horizontally; on a phone the method stays visible."""
    with new_page(browser, width) as page:
        page.goto(report)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("#table").evaluate("table => { table.parentElement.scrollLeft = 300 }")
        assert (
            page.locator(f"{FIRST} th[scope=row]").first.evaluate("e => e.getBoundingClientRect().left") >= 0
        )
