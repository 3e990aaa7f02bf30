"""The map of a day in a real browser, which shows how routes are driven."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.outputs import Place, write_day
from tests.support.browser import new_page
from tests.support.solving import put_day, solved_day


def test_a_followed_route_shows_how_it_is_driven(browser: Browser, tmp_path: Path) -> None:
    """By pointing and by choosing, one route at a time; "Show all" ends it."""
    store = Store.open(tmp_path / "store")
    put_day(store)
    demands = {node: 2 + node % 3 for node in range(1, 13)}
    solved = solved_day(store, demands, capacity=20, model=None, time_limit=0.5)
    write_day(Place(Store.open(tmp_path / "day")), solved)
    first, second = solved.solution.routes[:2]
    ids = solved.planned.addresses.ids
    with new_page(browser) as page:
        page.goto((tmp_path / "day" / "map.html").as_uri())
        one, other, numbers = page.locator("#r1"), page.locator("#r2"), "text.number"
        expect(one.locator(numbers).first).to_be_hidden()
        page.get_by_role("button", name="stops, load").nth(0).hover()
        expect(one.locator(numbers).first).to_be_visible()
        page.get_by_role("button", name="stops, load").nth(1).click()
        expect(other.locator(numbers).first).to_be_visible()
        expect(one.locator(numbers).first).to_be_hidden()
        shown = other.locator(numbers).all_text_contents()
        assert shown == [str(k) for k in range(1, len(second) + 1)]
        tips = other.locator(".stop title").all_text_contents()
        assert [tip.split(", after")[0] for tip in tips] == [
            f"{ids[node]}: demand {demands[node]}, stop {k} of route 2" for k, node in enumerate(second, 1)
        ]
        items = page.locator('[data-route="r2"] + ol li')
        assert items.all_text_contents() == [f"{ids[node]}, demand {demands[node]}" for node in second]
        expect(items.first).to_be_visible()
        page.get_by_role("button", name="Show all").click()
        expect(other.locator(numbers).first).to_be_hidden()
        assert len(first) == one.locator(".stop").count()
