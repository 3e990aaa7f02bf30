"""`mcvrp.solve`: the same day from any kind of orders, shown as a page, written only on demand."""

from __future__ import annotations

import datetime
import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mcvrp
from mcvrp.flows.day import RoutedDay
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import save_city
from mcvrp.tasks.solve.spec import SolveSpec
from tests.support.datasets import fill
from tests.support.markup import Markup
from tests.support.solving import CITY, put_day, put_model

pytestmark = pytest.mark.usefixtures("impatient")
QUICK: dict[str, Any] = {"capacity": 18, "time_limit": 1.0}
DEMANDS = {str(node): 3 for node in range(1, 9)}


@pytest.fixture(scope="module")
def day() -> RoutedDay:
    return mcvrp.solve(DEMANDS, CITY, **QUICK)


@pytest.mark.parametrize("kind", ["rows", "table", "file"])
def test_orders_of_any_kind_are_the_same_day(day: RoutedDay, tmp_path: Path, kind: str) -> None:
    table = pd.DataFrame({"customer": DEMANDS.keys(), "demand": DEMANDS.values()}, index=range(5, 13))
    table.to_csv(tmp_path / "day.csv", index=False)
    orders: Any = {"rows": table.to_dict("records"), "table": table, "file": tmp_path / "day.csv"}[kind]
    assert mcvrp.solve(orders, CITY, **QUICK).planned.digest == day.planned.digest


def test_routes_have_the_ids_of_the_customers(day: RoutedDay) -> None:
    """Each once; costs of routes add up; the table is that of routes.csv."""
    assert sorted(name for route in day.routes for name in route) == sorted(DEMANDS)
    assert sum(day.costs) == pytest.approx(day.cost) == mcvrp.cost(CITY, day.solution)
    frame = day.to_frame()
    assert (
        frame[frame["stop"] > 0].groupby("route")["customer"].apply(list).map(lambda ids: ids[:-1]).tolist()
        == day.routes
    )
    assert (day.found_by, day.unserved) == (day.search.findings[0].by, ())


def test_objects_of_the_api_are_printed_in_a_line(day: RoutedDay, tmp_path: Path) -> None:
    store = mcvrp.Store.open(tmp_path)
    fill(store, 0, 40)
    city = mcvrp.City(np.random.default_rng(1).random((40, 2)), np.ones((40, 40)) - np.eye(40))
    dataset = mcvrp.Dataset.open(store, "d")
    for each in (day, day.instance, city, dataset, dataset.labels(20)):
        assert len(repr(each).replace(str(tmp_path), "")) < 150


def test_a_notebook_shows_figures_and_map(day: RoutedDay) -> None:
    """In a frame, whose page is that of map.html."""
    page = day._repr_html_()
    assert f"<th>cost</th><td>{day.cost:.3f}, straight-line distance</td>" in page
    (source,) = re.findall(r'<iframe srcdoc="([^"]*)"', page)
    assert html.unescape(source).startswith("<!doctype html>")
    assert "title" in Markup(html.unescape(source)).texts


def test_a_day_is_written_on_demand(day: RoutedDay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    again = mcvrp.solve(DEMANDS, CITY, **QUICK)
    assert not list(tmp_path.iterdir())
    again.write(tmp_path / "routes")
    again.write(tmp_path / "routes")  # the same orders
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "routes" / "routes.csv", dtype={"customer": str}), again.to_frame()
    )
    other = mcvrp.solve({"1": 1}, CITY, **QUICK)
    with pytest.raises(McvrpError, match="holds the routes of other orders"):
        other.write(tmp_path / "routes")
    other.write(tmp_path / "routes", overwrite=True)


def test_capacity_and_date_may_be_those_of_a_table_or_a_file(day: RoutedDay) -> None:
    """A date has no time, whatever it was read with."""
    for date in ("2026-02-20", datetime.date(2026, 2, 20), pd.Timestamp("2026-02-20 07:30")):
        for capacity in ("18", np.int64(18)):
            options: Any = {"time_limit": 0.2, "capacity": capacity, "date": date}
            dated = mcvrp.solve(DEMANDS, CITY, **options)
            assert dated.planned.digest == day.planned.digest
            assert set(dated.to_frame()["date"]) == {"2026-02-20"}


def test_a_city_and_a_model_of_the_store(tmp_path: Path) -> None:
    """With limits, customers who are left out, and routes that are kept."""
    store = mcvrp.Store.open(tmp_path / "store")
    put_day(store)
    first = mcvrp.solve(DEMANDS, "small", model="small", store=store, samples=2, fleet=1, drop=True, **QUICK)
    assert len(first.routes) == 1
    assert len(first.unserved) == 2
    first.write(tmp_path / "first")
    second = mcvrp.solve(
        DEMANDS, "small", store=tmp_path / "store", keep=tmp_path / "first/routes.csv", **QUICK
    )
    assert second.routes[0] == first.routes[0]
    assert second.unserved == ()


def test_a_model_that_fails_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The routes are those of the search; and the reason is among its failures."""
    store = mcvrp.Store.open(tmp_path)
    put_day(store)
    store.delete("models/small/0001/model.safetensors")
    day = mcvrp.solve(DEMANDS, "small", model="small", store=store, capacity=18, time_limit=120)
    assert sorted(name for route in day.routes for name in route) == sorted(DEMANDS)
    (failure,) = day.failures
    assert "there is no" in failure
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [failure]


def test_files_of_the_store_are_in_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a city of its own, which needs no store, and from any folder."""
    store = mcvrp.Store.open(tmp_path / "store")
    store.put("orders/m.csv", b"customer,demand\n1,3\n2,3\n")
    store.put("orders/routes.csv", b"route,stop,customer\n1,1,2\n")
    monkeypatch.setenv("MCVRP_STORE", store.uri)
    monkeypatch.chdir(tmp_path)
    for orders, keep in (("store:orders/m.csv", None), ({"1": 3, "2": 3}, Path("store:orders/routes.csv"))):
        assert len(mcvrp.solve(orders, CITY, keep=keep, **QUICK).costs) >= 1


def test_models_are_not_mentioned_in_a_store_without_any(store: mcvrp.Store) -> None:
    """Nothing is missed there, unlike with models of other cities."""
    save_city(store, "other", CITY)
    options: dict[str, Any] = {"store": store, "usual_model": "small", **QUICK}
    assert mcvrp.solve({"1": 3}, "other", **options).notes == ()
    put_model(store, "elsewhere", City.uniform(9, seed=3))
    assert "the store has no model" in mcvrp.solve({"1": 3}, "other", **options).notes[0]


def test_options_are_read_as_cells_are() -> None:
    """A decimal comma, and a date whose day is first; what may be a thousand is refused."""
    orders = pd.DataFrame({"date": ["2026-12-03", "2026-12-04"], "customer": [1, 2], "demand": 1})
    routed = mcvrp.solve(orders, CITY, date="03.12.2026", longest_route="12,5", **QUICK)
    assert (routed.routes, routed.planned.spec.longest_route) == ([["1"]], 12.5)
    assert SolveSpec(shift="3,5h", service="1h 2,5min").shift == 12600  # type: ignore[arg-type]
    for option, text in (("shift", "1,234h"), ("longest_route", "1,234"), ("date", "03/12/2026")):
        with pytest.raises(McvrpError, match=f"{option}: '{text}'"):
            mcvrp.solve({"1": 1}, CITY, capacity=9, **{option: text})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("orders", "options", "message"),
    [
        ({}, {}, "the list of orders is empty: add orders"),
        ({"99": 1}, {}, "orders: row 1: '99' is not a customer of city 'city'"),
        ({"1": 0.5}, {}, "row 1: demand is '0.5', not a whole number"),
        ([{"customer": 1}], {}, "orders has no column demand"),
        ({"1": 1}, {"time_limit": -1}, "time_limit.*not -1"),
        ({"1": 1}, {"fleets": 1}, "fleets: there is no such field"),
        ({"1": 1}, {"overwrite": True}, "overwrite: there is no folder"),
        ({"1": 1}, {"capacity": "8 t"}, "capacity: .*, not '8 t'"),
        ({"1": 1}, {"date": "17/02"}, "date: '17/02' is not a date like 2026-01-31"),
        ({"1": 1}, {"date": pd.NaT}, "date: NaT is not a date"),
        ({"1": 1}, {"columns": {"customer": "a", "id": "b"}}, "customer and id are the same field"),
        ({"1": 1}, {"sheet": "Monday"}, "--sheet is for orders in a workbook"),
        ({"1": 1}, {"model": "small", "by": "hgs"}, "--model small is for .*, not for --by hgs"),
        ({"1": 1}, {"version": 3}, "--version 3 is of a model, and none searches"),
        ({"1": 1}, {"keep": "nothing.csv"}, "there is no file nothing.csv"),
        ({"1": 1}, {"longest_route": 1e-3}, "no routes satisfy --longest-route 0.001"),
        ({"1": 1}, {"model": "small", "store": "nowhere"}, "no store"),
    ],
)
def test_bad_input_is_one_sentence(orders: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(McvrpError, match=message) as error:
        mcvrp.solve(orders, CITY, **{"capacity": 18, **options})
    assert "\n" not in str(error.value)
