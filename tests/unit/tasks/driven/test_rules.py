"""Validation of driven routes: valid days are returned as driven, invalid rows are rejected with a reason."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Solution, infeasibility
from mcvrp.tasks.driven.rules import COLUMNS, CheckedDay, CheckedRoutes, KnownDay, check_routes

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
    return check_routes(table, CITY, NODES, **{"today": TODAY, **options})


def known(day: CheckedDay) -> KnownDay:
    return KnownDay("first.csv", day.instance, day.solution)


def test_a_day_comes_back_as_it_was_driven() -> None:
    (day,) = check(GOOD).days
    assert day.date == datetime.date(2026, 2, 27)
    assert day.instance.ids.tolist() == [1, 2, 3, 4]
    assert day.instance.demands.tolist() == [4, 6, 2, 1]
    assert day.instance.capacity == 10
    assert day.solution == canonical(CITY, Solution.of([[1, 2], [3, 4]]))
    assert check(GOOD).rejected.empty


@pytest.mark.parametrize(
    ("dates", "read"),
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
def test_dates_of_a_file_agree_on_day_and_month(dates: list[str], read: list[str]) -> None:
    """A file in which both orders are possible, or both occur, is not guessed at."""
    rows: list[Row] = [(date, "a", 1, f"C{k}", 1, 10) for k, date in enumerate(dates, start=1)]
    checked = check(rows)
    assert [day.date.isoformat() for day in checked.days] == read
    assert len(checked.rejected) == len(dates) - len(read)
    assert checked.rejected["reason"].str.endswith("like 2026-01-31").all()


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
        ([*GOOD[:2], (DAY, "north", 3, "C5", 1, 10)], 3),
    ],
    ids=["same", "reversed", "one replaced", "one left out", "joined", "one more"],
)
def test_a_route_that_was_corrected_is_not_passed_over(again: list[Row], rejected: int) -> None:
    """Routes that a day has are known in either direction; others of its customers contradict it."""
    (day,) = check(GOOD).days
    checked = check(again, stored=lambda _: known(day))
    assert (checked.days, len(checked.rejected), checked.known) == ((), rejected, len(again) - rejected)
    assert checked.rejected["reason"].str.contains("which the day has already, from first.csv").all()


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
    assert checked.rejected["reason"].str.endswith("of most routes of the day 10").all()


CELLS = {
    "date": st.sampled_from([DAY, "2026-02-26", "2026-02-31", None]),
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
    assert len(set(rejected)) == len(rows) - sum(day.instance.n for day in checked.days) == len(rejected)
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
