"""Earlier routes as a start: adapted to the orders of the day, and never better than the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.start import Start, fitted_routes, read_start
from tests.support.solving import CITY, put_day, solved_day

LINE = City(np.array([[0.0, 0.0], [0.1, 0.0], [0.2, 0.0], [0.3, 0.0], [0.3, 0.1], [0.1, 0.9]]))
HEADER = "route,stop,customer\n"


def day(*ids: int, demand: int = 1, capacity: int = 10, city: City = LINE) -> Instance:
    return Instance(city.city_id, np.array(ids), np.full(len(ids), demand), capacity)


def start(folder: Path, text: str, instance: Instance) -> Start:
    (folder / "routes.csv").write_text(text)
    names = Addresses.numbered(LINE.customers)
    return read_start(Store.open(folder), str(folder / "routes.csv"), LINE, names, instance)


def test_earlier_routes_are_adapted() -> None:
    assert fitted_routes(LINE, day(1, 3), [[1, 2, 3]]) == Solution(((1, 3),))
    assert fitted_routes(LINE, day(1, 2, 3), [[1, 3]]) == Solution(((1, 2, 3),))
    assert fitted_routes(LINE, day(1, 2, 3, demand=5), [[1, 2, 3]]) == Solution(((1, 2), (3,)))
    assert fitted_routes(LINE, day(1, 2, demand=6), [[1]]) == Solution(((1,), (2,)))
    assert fitted_routes(LINE, day(1, 2), []) == Solution(((2, 1),))  # as long as the other way round


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 40), max_size=12), max_size=6), st.integers(1, 40), st.integers(9, 60)
)
def test_fitted_routes_serve_everybody(earlier: list[list[int]], count: int, capacity: int) -> None:
    owner = {node: k for k, route in enumerate(earlier) for node in route}  # a customer is on one route
    once = [[n for n in dict.fromkeys(route) if owner[n] == k] for k, route in enumerate(earlier)]
    rng = np.random.default_rng(count)
    ids = np.sort(rng.choice(np.arange(1, 41), count, replace=False))
    instance = Instance(CITY.city_id, ids, rng.integers(1, 10, count), capacity)  # type: ignore[arg-type]
    assert infeasibility(instance, fitted_routes(CITY, instance, once)) is None


def test_a_file_of_routes_is_read_in_the_order_of_its_stops(tmp_path: Path) -> None:
    """Rows in any order, stops at the depot skipped; a note counts the common customers."""
    text = HEADER + "b,1,3\na,2,2\na,1,1\na,0,0\na,3,0\n"
    result = start(tmp_path, text, day(1, 2, 3, 4))
    assert result.solution == Solution(((4, 3), (1, 2)))
    assert result.note.startswith("routes.csv has 3 of 4 customers")


def test_routes_have_the_columns_of_the_city(tmp_path: Path) -> None:
    """Also beside a customer's name, and with our names, as in routes.csv."""
    names = Addresses.numbered(LINE.customers)
    names = replace(names, columns={"id": "Code client", "route": "Tour", "stop": "Halt", "date": "Jour"})
    file = tmp_path / "tours.csv"
    for text in (
        "Jour;Tour;Halt;Code-Client;Customer\nx;b;1;3;Shop\nx;a;2;2;\nx;a;1;1;\n",
        HEADER + "b,1,3\na,2,2\na,1,1\n",
    ):
        file.write_text(text)
        result = read_start(Store.open(tmp_path), str(file), LINE, names, day(1, 2, 3, 4))
        assert result.solution == Solution(((4, 3), (1, 2)))
    file.write_text("Jour;Tour;Halt;Code client\nx;a;1;1\ny;a;2;2\n")
    with pytest.raises(McvrpError, match=r"routes of 2 days \(x and y\)"):
        read_start(Store.open(tmp_path), str(file), LINE, names, day(1, 2))


def test_ids_are_those_of_the_city_in_any_unicode_form(tmp_path: Path) -> None:
    """Routes, too: an é of two characters is the é of one."""
    names, file = Addresses(("d", "Caf\u00e9", "b", "007", "7", "x")), tmp_path / "routes.csv"
    file.write_text(HEADER + "T\u00e9,1,Cafe\u0301\nTe\u0301,2,b\n")
    result = read_start(Store.open(tmp_path), str(file), LINE, names, day(1, 2))
    assert result.solution == Solution(((1, 2),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("route,customer\na,1\n", "has no column stop"),
        (HEADER + "a,first,1\n", "row 2: stop is 'first', not a number"),
        (HEADER + "a,1,9\n", "row 2: '9' is not a customer of city 'city'"),
        (HEADER + "a,1,1\nb,1,1\n", "row 3: customer '1' is already on a route, in row 2"),
        (HEADER + "a,1,1\nb,1,2\na,1,3\n", "row 4: route 'a' already has stop 1, in row 2"),
        (HEADER + "a,1,1\na,1.0,2\n", "row 3: route 'a' already has stop 1, in row 2"),
        (HEADER + "a,1,1\n,2,2\n", "row 3: route is missing"),
        ("date,route,stop,customer\n2026-01-30,a,1,1\n2026-01-31,a,1,2\n", "routes of 2 days"),
    ],
)
def test_an_invalid_start_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(McvrpError, match=message):
        start(tmp_path, text, day(1, 2))


@pytest.mark.parametrize("samples", [0, 4])
def test_a_day_begins_with_the_routes_of_another(tmp_path: Path, samples: int) -> None:
    store = Store.open(tmp_path / "store")
    put_day(store)
    spec: dict[str, Any] = {"samples": samples, "time_limit": 1}
    yesterday, today = (dict.fromkeys(range(first, first + 15), 3) for first in (1, 4))
    write_day(Place(Store.open(tmp_path / "yesterday")), solved_day(store, yesterday, **spec))
    routes = str(tmp_path / "yesterday" / "routes.csv")
    result = solved_day(store, today, start=routes, **spec)
    planned = result.planned
    assert planned.start is not None
    assert infeasibility(planned.day.instance, result.solution) is None
    assert result.cost <= cost(CITY, planned.start.solution) + 1e-9
    note = "started from earlier routes: routes.csv has 12 of 15 customers"
    assert any(each.startswith(note) for each in result.notes)
