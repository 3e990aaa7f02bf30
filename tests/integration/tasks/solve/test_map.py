"""The pages of a day in a real browser: a map that shows how routes are driven, and a sheet that prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, expect

from mcvrp.model.city import City
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.sheets import pages
from tests.support.browser import new_page
from tests.support.solving import CITY, put_day, solved_day


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
        expect(one.locator(".arrow")).to_be_visible()
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


def test_sixteen_stops_with_times_print_on_one_page(browser: Browser, tmp_path: Path) -> None:
    """With six columns of addresses, of which two are in large type."""
    store, count = Store.open(tmp_path / "store"), len(CITY.xy)
    texts = ("Gasthof Zum Goldenen Posthorn", "Bayreuther Straße 19", "90489", "Nürnberg", "+49 911 367459")
    further = {name: count * (text,) for name, text in zip("abcde", texts, strict=True)}
    addresses = replace(Addresses.numbered(count - 1), further=further)
    save_city(store, "small", City(CITY.xy, 1000 * CITY.costs(np.arange(count)), unit="s"), addresses)
    demands, options = dict.fromkeys(range(1, 33), 1), {"start_time": "08:00", "service": "4min"}
    solved = solved_day(store, demands, 16, model=None, time_limit=0.5, **options)
    (tmp_path / "routes.html").write_text(pages(solved), encoding="utf-8")
    with new_page(browser) as page:
        page.goto((tmp_path / "routes.html").as_uri())
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) == 2
