"""Validation of driven routes: valid days are returned as driven, invalid rows are rejected with a reason."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Solution, infeasibility
from mcvrp.storage.cities import DateOrder
from mcvrp.tasks.driven.rules import (
    COLUMNS,
    CheckedDay,
    CheckedRoutes,
    KnownDay,
    check_routes,
    dates,
    days_of,
)

CITY = City.uniform(12, seed=1)
NODES = {"depot": 0} | {f"C{node}": node for node in range(1, 13)}
TODAY = datetime.date(2026, 3, 1)
DAY = "2026-02-27"

Row = tuple[Any, ...]
GOOD: list[Row] = [
    (DAY, "north", 1, "C1", 4, 10),
    (DAY, "north", 2, "C2", 6, 10),
    (DAY, "south", 2, "C4", 1, 10),
    (DAY, "south", 1, "C3", 2, 10),
]


def check(rows: list[Row], **options: Any) -> CheckedRoutes:
    lines = pd.RangeIndex(2, 2 + len(rows))
    table = pd.DataFrame(rows, columns=list(COLUMNS), index=lines, dtype="string")
    return check_routes(table, days(table), CITY, NODES, **options)


def days(table: pd.DataFrame, order: DateOrder | None = None) -> pd.Series[pd.Timestamp]:
    return days_of("friday.csv", table, today=TODAY, order=order)


def known(day: CheckedDay) -> KnownDay:
    return KnownDay("first.csv", day.instance, day.solution, ": remove it")


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["21/02/2026", "03/02/2026"], ["2026-02-03", "2026-02-21"]),
        (["02/21/2026", "02/03/2026"], ["2026-02-03", "2026-02-21"]),
        (["3.2.2026", "2026-02-21"], ["2026-02-03", "2026-02-21"]),
        (["02-02-2026"], ["2026-02-02"]),
        (["03/02/2026"], []),
        (["21/02/2026", "02/21/2026"], []),
        (["21/02/2026", "99/99/2026"], ["2026-02-21"]),
        (["21/02-2026", "٢١/02/2026"], []),
        (["03.02.2026", "02/21/2026"], ["2026-02-03", "2026-02-21"]),
        (["03.02.2026", "03/02/2026"], ["2026-02-03"]),
    ],
)
def test_dates_of_a_file_agree_on_day_and_month(cells: list[str], read: list[str]) -> None:
    """A file in which both orders are possible, or both occur, is not guessed at."""
    found = dates(pd.Series(cells, dtype="string"))
    assert sorted(found.dropna().dt.strftime("%Y-%m-%d")) == read
    table = pd.DataFrame({"date": cells, "route": "a"}, dtype="string")
    if len(read) < len(cells):
        with pytest.raises(McvrpError, match="like 2026-01-31"):
            days(table)
    else:
        assert days(table).tolist() == found.tolist()


@pytest.mark.parametrize(
    ("order", "read"),
    [("day-first", ["2026-11-02", "2026-02-03"]), ("month-first", ["2026-02-11", "2026-02-03"])],
)
def test_an_order_of_day_and_month_is_kept_to(order: DateOrder, read: list[str]) -> None:
    """Dates with dots have the day first everywhere; what is no date in this order is none."""
    cells = pd.Series(["02/11/2026", "3.2.2026"], dtype="string")
    assert dates(cells, order).dt.strftime("%Y-%m-%d").tolist() == read
    other = {"day-first": "02/21/2026", "month-first": "21/02/2026"}[order]
    table = pd.DataFrame({"date": [other], "route": "a"}, dtype="string")
    with pytest.raises(McvrpError, match=f"friday.csv: row 0: date '{other}' is not a date like 2026-01-31"):
        days(table, order)


def test_a_row_twice_counts_once() -> None:
    """It has nothing that a person could correct."""
    checked = check([*GOOD, GOOD[0]])
    assert checked.days[0].solution == check(GOOD).days[0].solution
    assert (len(checked.rejected), checked.known) == (0, 1)


@settings(max_examples=40)
@given(st.sets(st.integers(0, 4)), st.integers(0, 2**32))
def test_a_day_in_two_files_is_the_day_in_one(first: set[int], seed: int) -> None:
    """Routes that a first file has are known in a second file of the whole day; the others are added."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = [
        (DAY, f"r{k}", stop, f"C{node}", int(rng.integers(1, 3)), 40)
        for k, route in enumerate(np.array_split(rng.permutation(12) + 1, 5))
        for stop, node in enumerate(route.tolist(), start=1)
    ]
    part = check([row for row in rows if int(row[1][1:]) in first]).days
    rest = check(rows, stored=lambda _: known(part[0]) if part else None)
    assert rest.rejected.empty
    assert rest.known == sum(day.instance.n for day in part)
    assert sorted(int(i) for day in (*part, *rest.days) for i in day.instance.ids) == list(range(1, 13))


@pytest.mark.parametrize(
    ("again", "rejected"),
    [
        (GOOD, 0),
        ([(day, route, 3 - stop, *cells) for day, route, stop, *cells in GOOD], 0),  # the other way round
        ([*GOOD[:2], (DAY, "south", 1, "C4", 1, 10), (DAY, "south", 2, "C5", 2, 10)], 2),
        (GOOD[:1], 1),
        ([(DAY, "north", stop, f"C{stop}", 1, 10) for stop in (1, 2, 3, 4)], 4),
        ([(DAY, "south", stop - 2, f"C{stop}", 1, 10) for stop in (3, 4, 5)], 3),
    ],
    ids=["same", "reversed", "one replaced", "one left out", "joined", "one more"],
)
def test_a_route_that_was_corrected_is_not_passed_over(again: list[Row], rejected: int) -> None:
    """Routes that a day has are known in either direction; others of its customers contradict it."""
    (day,) = check(GOOD).days
    checked = check(again, stored=lambda _: known(day))
    assert (checked.days, len(checked.rejected), checked.known) == ((), rejected, len(again) - rejected)
    source = "is on another route of 2026-02-27, which was read from first.csv: remove it"
    assert all(source in route.faults[0] for route in checked.routes)
    assert all(route.contradicts for route in checked.routes)


def test_of_a_file_that_contradicts_a_day_nothing_is_added_to_it() -> None:
    """Half of a correction, and half of what it corrects, would be a day that was never driven."""
    (day,) = check(GOOD).days
    other: Row = ("2026-02-26", "a", 1, "C5", 1, 10)
    rows: list[Row] = [*GOOD[:2], (DAY, "south", 1, "C4", 1, 10), (DAY, "new", 1, "C5", 1, 10), other]
    checked = check(rows, stored=lambda date: known(day) if date == day.date else None)
    assert [each.date.isoformat() for each in checked.days] == ["2026-02-26"]
    assert (checked.known, checked.dates) == (2, ("2026-02-26", DAY))
    assert checked.rejected["row"].tolist() == [4, 5]


def test_a_rejected_route_does_not_contradict_the_day() -> None:
    """Its correction may be there already, from another file."""
    (day,) = check(GOOD).days
    rows: list[Row] = [(DAY, "south", 1, "C99", 1, 10), (DAY, "south", 2, "C3", 2, 10)]
    (route,) = check(rows, stored=lambda _: known(day)).routes
    assert (route.contradicts, route.customers) == (False, ("C99", "C3"))


def test_the_order_of_stops_counts() -> None:
    rows: list[Row] = [(DAY, "a", stop, f"C{stop}", 1, 10) for stop in (1, 2, 3)]
    (day,) = check(rows).days
    exchanged = [(DAY, "a", stop, f"C{node}", 1, 10) for stop, node in ((1, 2), (2, 1), (3, 3))]
    assert len(check(exchanged, stored=lambda _: known(day)).rejected) == 3


def test_the_capacity_of_a_day_is_that_of_most_routes() -> None:
    """Not of most stops: a long route may be the one with a typing error."""
    long: list[Row] = [(DAY, "long", stop, f"C{stop}", 1, 100) for stop in range(1, 6)]
    short: list[Row] = [(DAY, f"s{k}", 1, f"C{k}", 1, 10) for k in (6, 7)]
    checked = check(long + short)
    assert checked.days[0].instance.ids.tolist() == [6, 7]
    reasons = checked.rejected["reason"].tolist()
    assert reasons[0].endswith("of most routes of the day 10")
    assert set(reasons[1:]) == {"its route has an error in row 2"}


CELLS = {
    "date": st.sampled_from([DAY, "2026-02-26"]),
    "route": st.sampled_from(["a", "b", "c"]),
    "stop": st.sampled_from([1, 2, 3, 0, "x"]),
    "customer": st.sampled_from([f"C{k}" for k in range(1, 15)] + ["depot"]),
    "demand": st.sampled_from([1, 2, 5, 11, "1.0", -3, None]),
    "capacity": st.sampled_from([10, 10, 10, 12]),
}


@settings(max_examples=40)
@given(st.lists(st.tuples(*CELLS.values()), max_size=30))
def test_every_row_ends_in_one_place(rows: list[Row]) -> None:
    """Each row is part of one day or rejected with a reason, and every day is feasible."""
    checked = check(rows)
    rejected = checked.rejected["row"].tolist()
    left = len(rows) - sum(day.instance.n for day in checked.days) - checked.known
    assert len(set(rejected)) == left == len(rejected)
    assert sorted(rejected) == sorted(row for route in checked.routes for row in route.rows)
    assert all(route.faults for route in checked.routes)
    assert checked.rejected["reason"].notna().all()
    for day in checked.days:
        assert infeasibility(day.instance, day.solution) is None


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_valid_days_lose_nothing(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    customers = rng.permutation(12)[:n] + 1
    cuts = np.array_split(customers, rng.integers(1, n + 1))
    rows: list[Row] = [
        (DAY, f"r{k}", stop, f"C{node}", int(rng.integers(1, 3)), 40)
        for k, route in enumerate(cuts)
        for stop, node in enumerate(route, start=1)
    ]
    checked = check([rows[k] for k in rng.permutation(len(rows))])
    assert checked.rejected.empty
    routes = [route.tolist() for route in cuts if len(route)]
    assert checked.days[0].solution == canonical(CITY, Solution.of(routes))
