"""Map page of a day: all stops are on it, with any names, and it loads nothing."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import numpy as np
import pytest

from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import Solved, plan_day, solve_day
from mcvrp.tasks.solve.map import map_page
from mcvrp.tasks.solve.readme import Stop, stops_of
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.markup import Markup
from tests.support.solving import CITY, put_day

NAMES = tuple(f"<b>{k} & \"Söhne'" for k in range(41))


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Solved:
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    save_city(store, "named", CITY, Addresses(NAMES))
    orders = [Order(customer=NAMES[k], demand=1 + k % 7) for k in range(1, 16)]
    planned = plan_day(store, "named", "small", orders, 20, SolveSpec(samples=4, hgs=False))
    return solve_day(store, planned, time.monotonic())


@pytest.fixture(scope="module")
def routes(solved: Solved) -> list[list[Stop]]:
    return stops_of(solved)


@pytest.fixture(scope="module")
def parsed(solved: Solved, routes: list[list[Stop]]) -> Markup:
    return Markup(map_page(solved, routes))


def test_every_stop_of_every_route_is_there(routes: list[list[Stop]], parsed: Markup) -> None:
    """On the map by name, and in the list of its route in order; names are text, never markup."""
    listed = [f"{stop.customer} ({stop.demand})" for stops in routes for stop in stops[1:-1]]
    assert parsed.texts["li"] == listed
    titled = [text for text in parsed.texts["title"] if " of route " in text]
    assert [text.split(":")[0] for text in titled] == [s.customer for stops in routes for s in stops[1:-1]]
    assert [values["id"] for tag, values in parsed.elements if tag == "g"] == [
        f"r{stops[0].route}" for stops in routes
    ]
    assert not [tag for tag, _ in parsed.elements if tag == "b"]


def test_routes_are_drawn_to_scale(solved: Solved, parsed: Markup) -> None:
    """Lengths of the drawn lines are proportional to those of the city; north is up."""
    lines = [v["d"] or "" for tag, v in parsed.elements if tag == "path" and v["class"] == "line"]
    drawn = [np.array(re.findall(r"-?\d+\.\d", line), dtype=float).reshape(-1, 2) for line in lines]
    xy = solved.planned.city.xy
    real = [xy[[0, *route, 0]] for route in solved.solution.routes]
    scale = np.ptp(drawn[0][:, 0]) / np.ptp(real[0][:, 0])
    for one, other in zip(drawn, real, strict=True):
        moved = (one - one[0]) / scale * [1, -1]
        np.testing.assert_allclose(moved, other - other[0], atol=2e-3)


def test_the_page_loads_nothing(solved: Solved, routes: list[list[Stop]], parsed: Markup) -> None:
    """No address of any kind: it works offline."""
    assert not [v for _, v in parsed.elements if {"src", "href"} & v.keys()]
    assert "://" not in map_page(solved, routes)
    assert "url(" not in map_page(solved, routes)


def test_a_city_of_one_place_has_a_page(solved: Solved) -> None:
    """A width of zero is not a divisor."""
    city = replace(solved.planned.city, xy=np.zeros_like(solved.planned.city.xy))
    flat = replace(solved, planned=replace(solved.planned, city=city))
    assert "nan" not in map_page(flat, stops_of(flat))
