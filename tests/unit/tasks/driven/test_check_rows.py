"""Validation of driven routes: days as they were driven, or an error that names rows and fields."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Solution, infeasibility
from mcvrp.storage.cities import Addresses, DateOrder, StoredCity
from mcvrp.tasks.driven.check_rows import CheckedDay, checked_days
from mcvrp.tasks.files.tabular import read_tabular

CITY = City.uniform(12, seed=1)
TOWN = StoredCity("town", CITY, Addresses(("depot", *(f"C{node}" for node in range(1, 13)))), "imported")
TODAY = datetime.date(2026, 3, 1)
DAY = "2026-02-27"

Row = tuple[Any, ...]


def check(rows: list[Row], order: DateOrder | None = None) -> list[CheckedDay]:
    lines = ["date,route,stop,customer,demand,capacity", *(",".join(map(str, row)) for row in rows)]
    table = read_tabular("friday.csv", "\n".join(lines).encode())
    town = replace(TOWN, addresses=replace(TOWN.addresses, dates=order))
    return checked_days(table, town, today=TODAY)


def dated(cells: list[str], order: DateOrder | None = None) -> list[str]:
    """Return the days of a file with these dates, each of one route to one customer."""
    rows = [(cell, f"r{k}", 1, f"C{k + 1}", 1, 10) for k, cell in enumerate(cells)]
    return [day.date.isoformat() for day in check(rows, order)]


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["3.2.2026", "2026-02-21"], ["2026-02-03", "2026-02-21"]),
        (["2026-02-21 00:00:00"], ["2026-02-21"]),
        (["21/02/2026"], None),
        (["21-02-2026"], None),
        (["99/99/2026"], None),
        (["٢١/02/2026"], None),
        (["03.02.2026", "03/02/2026"], None),
    ],
)
def test_an_order_of_day_and_month_is_not_guessed(cells: list[str], read: list[str] | None) -> None:
    if read is None:
        with pytest.raises(McvrpError, match="like 2026-01-31"):
            dated(cells)
    else:
        assert dated(cells) == read


@pytest.mark.parametrize(
    ("order", "cell", "other"),
    [("day-first", "11/02/2026", "02/21/2026"), ("month-first", "02/11/2026", "21/02/2026")],
)
def test_an_order_of_day_and_month_is_kept_to(order: DateOrder, cell: str, other: str) -> None:
    """Dates with dots have the day first everywhere; what is no date in this order is none."""
    assert dated([cell.replace("/", "-"), "3.2.2026"], order) == dated([cell, "2026-02-03"], order)
    assert dated([cell, "3.2.2026"], order) == ["2026-02-03", "2026-02-11"]
    with pytest.raises(McvrpError, match=f"friday.csv: row 2: date '{other}' is not a date like 2026-01-31"):
        dated([other], order)


CELLS = {
    "date": st.sampled_from([DAY, "2026-02-26"]),
    "route": st.sampled_from(["a", "b", "c"]),
    "stop": st.sampled_from([1, 2, 3, 0, "x"]),
    "customer": st.sampled_from([f"C{k}" for k in range(1, 15)] + ["depot"]),
    "demand": st.sampled_from([1, 2, 5, 11, "1.0", -3, ""]),
    "capacity": st.sampled_from([10, 10, 10, 12]),
}


@settings(max_examples=30)
@given(st.lists(st.tuples(*CELLS.values()), min_size=1, max_size=6))
def test_a_file_is_feasible_days_of_all_its_rows_or_an_error_that_names_one(rows: list[Row]) -> None:
    days, message = [], "friday.csv: row "
    try:
        days = check(rows)
    except McvrpError as error:
        message = str(error)
    assert message.startswith("friday.csv: row ")
    assert not days or sum(day.instance.n for day in days) == len(rows)
    for day in days:
        assert infeasibility(day.instance, day.solution) is None


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_valid_days_lose_nothing(seed: int, n: int) -> None:
    """Whatever the order of their rows."""
    rng = np.random.default_rng(seed)
    customers = rng.permutation(12)[:n] + 1
    cuts = np.array_split(customers, rng.integers(1, n + 1))
    rows: list[Row] = [
        (DAY, f"r{k}", stop, f"C{node}", int(rng.integers(1, 3)), 40)
        for k, route in enumerate(cuts)
        for stop, node in enumerate(route, start=1)
    ]
    (day,) = check([rows[k] for k in rng.permutation(len(rows))])
    assert day.solution == canonical(CITY, Solution.of([route.tolist() for route in cuts if len(route)]))
    demands = pd.Series({int(row[3][1:]): row[4] for row in rows}).sort_index()
    assert day.instance.ids.tolist() == demands.index.tolist()
    assert day.instance.demands.tolist() == demands.tolist()


def test_the_order_of_stops_counts() -> None:
    rows: list[Row] = [(DAY, "a", stop, f"C{stop}", 1, 10) for stop in (1, 2, 3)]
    exchanged: list[Row] = [(DAY, "a", stop, f"C{node}", 1, 10) for stop, node in ((1, 2), (2, 1), (3, 3))]
    assert check(rows)[0].solution != check(exchanged)[0].solution
