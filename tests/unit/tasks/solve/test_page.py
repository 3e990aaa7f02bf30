"""Tests of the map as a page: all of the day is on it, whatever names there are, and it loads nothing."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import Solved, plan_day, solve_day
from mcvrp.tasks.solve.page import map_page
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.stops import Stop, stops_of
from tests.support.solving import CITY, put_day

NAMES = tuple(f"<b>{k} & \"Söhne'" for k in range(41))


class Parsed(HTMLParser):
    """Elements of a page with their attributes, and the texts of those that hold one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.setdefault(self._open, []).append(data.strip())


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
def parsed(solved: Solved, routes: list[list[Stop]]) -> Parsed:
    return Parsed(map_page(solved, routes))


def test_every_stop_of_every_route_is_there(routes: list[list[Stop]], parsed: Parsed) -> None:
    """On the map by its name, and in the list of its route, in order; names are text, whatever they hold."""
    listed = [f"{stop.customer} ({stop.demand})" for stops in routes for stop in stops[1:-1]]
    assert parsed.texts["li"] == listed
    titled = [text for text in parsed.texts["title"] if " of route " in text]
    assert [text.split(":")[0] for text in titled] == [s.customer for stops in routes for s in stops[1:-1]]
    assert [values["id"] for tag, values in parsed.elements if tag == "g"] == [
        f"r{stops[0].route}" for stops in routes
    ]
    assert not [tag for tag, _ in parsed.elements if tag == "b"]


def test_routes_are_drawn_to_scale(solved: Solved, parsed: Parsed) -> None:
    """Lengths of the drawn lines are those of the city, times one factor; north is above."""
    lines = [v["d"] or "" for tag, v in parsed.elements if tag == "path" and v["class"] == "line"]
    drawn = [np.array(re.findall(r"-?\d+\.\d", line), dtype=float).reshape(-1, 2) for line in lines]
    xy = solved.planned.city.xy
    real = [xy[[0, *route, 0]] for route in solved.solution.routes]
    scale = np.ptp(drawn[0][:, 0]) / np.ptp(real[0][:, 0])
    for one, other in zip(drawn, real, strict=True):
        moved = (one - one[0]) / scale * [1, -1]
        np.testing.assert_allclose(moved, other - other[0], atol=2e-3)


def test_the_page_loads_nothing(solved: Solved, routes: list[list[Stop]], parsed: Parsed) -> None:
    """No address of any kind: it is whole without a network."""
    assert not [v for _, v in parsed.elements if {"src", "href"} & v.keys()]
    assert "://" not in map_page(solved, routes)
    assert "url(" not in map_page(solved, routes)


def test_a_city_of_one_place_has_a_page(solved: Solved) -> None:
    """Nothing is divided by its width."""
    city = replace(solved.planned.city, xy=np.zeros_like(solved.planned.city.xy))
    flat = replace(solved, planned=replace(solved.planned, city=city))
    assert "nan" not in map_page(flat, stops_of(flat))
