"""Validation of driven routes, vectorized over columns, with a reason for each rejected row.

A faulty row is rejected with its whole route, as the other stops are not what was driven; a duplicate alone.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import DEPOT, City, Instance, Solution
from mcvrp.tasks.files.csv_cells import whole

COLUMNS = ("date", "route", "stop", "customer", "demand", "capacity")
FIRST_DATE = datetime.date(2000, 1, 1)  # earlier dates are typing errors
_LARGEST = {"stop": 2**16 - 1, "demand": 2**16 - 1, "capacity": 2**32 - 1}  # by the schema of labels
_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_LOCAL_DATE = r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}"  # in one order of day and month per file
_MOST_REASONS = 5  # listed per file
_ROUTE = ["day", "route"]


@dataclass(frozen=True)
class CheckedDay:
    """Orders and driven routes of one day."""

    date: datetime.date
    instance: Instance
    solution: Solution


@dataclass(frozen=True)
class KnownDay:
    """Orders and routes of a day in the store, and the names of the files that they were read from."""

    files: str
    orders: Instance
    solution: Solution


@dataclass(frozen=True)
class CheckedRoutes:
    """Each row is in a day or ``rejected``, as it was between the columns ``row`` (number) and ``reason``.

    ``known`` is the number of rows that were in a stored day before.
    """

    days: tuple[CheckedDay, ...]
    rejected: pd.DataFrame
    known: int = 0

    @property
    def reasons(self) -> dict[str, int]:
        """Number of rejected rows by reason without its figures and names, the most common ones first."""
        quoted = (re.sub(r"'[^']*'", "…", reason) for reason in self.rejected["reason"])
        kinds = Counter(re.sub(r"(?<![\w-])\d[\d,]*(?![\w-])", "…", reason) for reason in quoted)
        return dict(kinds.most_common(_MOST_REASONS))


def check_routes(
    table: pd.DataFrame,
    city: City,
    nodes: Mapping[str, int],
    *,
    today: datetime.date,
    stored: Callable[[datetime.date], KnownDay | None] = lambda date: None,
) -> CheckedRoutes:
    """Return the valid days of ``table``, and its invalid rows with reasons.

    The table has one row per stop with `COLUMNS` as text, and any others; its index has the row numbers.
    ``nodes`` has the node of each customer id. Dates after ``today`` are rejected. A day that is
    ``stored`` takes further routes, of customers without an order that day: what is returned is to be added.
    """
    rows = _Rows.of(table, nodes)
    _check_cells(rows, today)
    repeats = _check_repeats(rows)
    for date in rows.valid_rows["day"].drop_duplicates().dt.date:
        if day := stored(date):
            _check_stored(rows, date, day, symmetric=city.symmetric)
    _check_whole_routes(rows, faulty=rows.reasons.notna() & ~repeats)
    good = rows.valid_rows
    days = tuple(_day(city, stops) for _, stops in good.groupby("day", sort=True))
    bad = rows.reasons.notna()
    # these columns are there in a quarantine file that was corrected
    rejected = table[bad].drop(columns=["row", "reason"], errors="ignore")
    rejected.insert(0, "row", rejected.index)
    rejected["reason"] = rows.reasons[bad]
    return CheckedRoutes(days, rejected.reset_index(drop=True), int(rows.known.sum()))


@dataclass
class _Rows:
    """Rows as text and as parsed values (missing if invalid), and the reason for which each was rejected.

    ``known`` rows are in a stored day.
    """

    text: pd.DataFrame
    values: pd.DataFrame
    reasons: pd.Series[str]
    known: pd.Series[bool]

    @classmethod
    def of(cls, table: pd.DataFrame, nodes: Mapping[str, int]) -> _Rows:
        text = pd.DataFrame({name: table[name].astype("string").str.strip() for name in COLUMNS})
        text = text.replace("", pd.NA)
        values = pd.DataFrame(
            {
                "day": dates(text["date"]),
                "route": text["route"],
                "node": text["customer"].map(nodes).astype("Int64"),
            }
        )
        for name, largest in _LARGEST.items():
            numbers = (whole(cell) for cell in text[name].fillna(""))
            fitting = [number if number and 1 <= number <= largest else None for number in numbers]
            values[name] = pd.array(fitting, dtype="Int64")
        known = pd.Series(False, index=table.index)
        return cls(text, values, pd.Series(pd.NA, index=table.index, dtype="string"), known)

    def reject(self, where: pd.Series[bool], reason: str | pd.Series[str]) -> None:
        """Reject the rows ``where``, unless they are rejected already."""
        where = where.fillna(False).astype(bool) & self.reasons.isna()
        self.reasons = self.reasons.mask(where, reason)

    @property
    def valid_rows(self) -> pd.DataFrame:
        """Values of the rows that are new and not rejected so far."""
        return self.values[self.reasons.isna() & ~self.known]

    def reject_groups(self, by: list[str], broken: pd.Series[bool], reasons: pd.Series[str]) -> None:
        """Reject all rows of groups ``by`` with a ``broken`` row, for the reason of the first such row."""
        hit = self.values.loc[broken.index[broken.fillna(False).astype(bool)], by].copy()
        if hit.empty:
            return
        hit["why"] = reasons.reindex(hit.index)
        why = self.values[by].merge(hit.drop_duplicates(by), on=by, how="left")["why"]
        why.index = self.values.index
        self.reject(why.notna(), why)


def dates(text: pd.Series[str]) -> pd.Series[pd.Timestamp]:
    """Return the dates, NaT if invalid; 21/02/2026 if all such dates of the file agree on day and month."""
    # pandas accepts digits of all scripts
    written, local = (text.str.fullmatch(form).fillna(False).astype(bool) for form in (_DATE, _LOCAL_DATE))
    dates = pd.to_datetime(text.where(written), format="%Y-%m-%d", errors="coerce")
    parts = text[local].str.replace(r"[./-]", "-", regex=True)
    day_first, month_first = (
        pd.to_datetime(parts, format=form, errors="coerce") for form in ("%d-%m-%Y", "%m-%d-%Y")
    )
    # with dots, the day is first everywhere
    dotted = text.str.contains(".", regex=False).fillna(False).astype(bool) & local
    dates = dates.where(~dotted, day_first.reindex(dates.index))
    others = (local & ~dotted)[local]
    possible = (day_first.notna() | month_first.notna()) & others
    orders = [order for order in (day_first, month_first) if order[possible].notna().all()]
    if orders and (len(orders) == 1 or orders[0][others].equals(orders[1][others])):
        dates = dates.where(dotted | ~local, orders[0].reindex(dates.index))
    return dates


def _check_cells(rows: _Rows, today: datetime.date) -> None:
    text, values = rows.text, rows.values
    for name in COLUMNS:
        rows.reject(text[name].isna(), f"{name} is missing")
    cell = {name: name + " '" + text[name].str.slice(0, 40) + "'" for name in COLUMNS}
    day, first = values["day"], pd.Timestamp(FIRST_DATE)
    local = rows.text["date"].str.fullmatch(_LOCAL_DATE)
    unclear = " may have day or month first: write it like 2026-01-31"
    rows.reject(day.isna() & local, cell["date"] + unclear)
    rows.reject(day.isna(), cell["date"] + " is not a date like 2026-01-31")
    rows.reject(day > pd.Timestamp(today), cell["date"] + " is in the future")
    rows.reject(day < first, cell["date"] + " is before the year 2000")
    for name, largest in _LARGEST.items():
        rows.reject(values[name].isna(), cell[name] + f" is not a whole number from 1 to {largest:,}")
    rows.reject(values["node"].isna(), cell["customer"] + " is not in the city")
    rows.reject(values["node"] == DEPOT, cell["customer"] + " is the depot: list only customers")


def _check_stored(rows: _Rows, date: datetime.date, day: KnownDay, *, symmetric: bool) -> None:
    """Find the routes that the stored ``day`` has, and reject those that contradict it."""
    before, of_day = day.orders, rows.valid_rows
    of_day = of_day[of_day["day"] == pd.Timestamp(date)]
    routes = set(day.solution.routes)
    if symmetric:  # they are stored in their canonical direction
        routes |= {route[::-1] for route in routes}
    ordered = of_day.sort_values("stop").groupby("route")["node"]
    driven = of_day["route"].map(ordered.agg(lambda nodes: tuple(nodes) in routes))
    served = of_day["node"].map(dict(zip(before.ids.tolist(), before.demands.tolist(), strict=True)))
    equal = (served == of_day["demand"]) & (of_day["capacity"] == before.capacity)
    known = equal.fillna(False).astype(bool).groupby(of_day["route"]).transform("all") & driven.astype(bool)
    rows.known.loc[of_day.index] |= known
    others = f"', which the day has already, from {day.files}"
    customer = "its route serves customer '" + rows.text["customer"] + others
    rows.reject_groups(_ROUTE, served.notna() & ~known, customer)
    capacity = of_day["capacity"].astype("string")
    other = "its capacity is " + capacity + f", that of the day {before.capacity}"
    rows.reject_groups(_ROUTE, (of_day["capacity"] != before.capacity) & ~known, other)


def _check_repeats(rows: _Rows) -> pd.Series[bool]:
    """Reject duplicates of earlier rows, and return which those are."""
    valid_rows = rows.valid_rows
    first = valid_rows.groupby([*valid_rows.columns], sort=False)["day"].transform(lambda same: same.index[0])
    repeats = pd.Series(first.to_numpy() != valid_rows.index, index=valid_rows.index)
    repeats = repeats.reindex(rows.reasons.index, fill_value=False).astype(bool)
    rows.reject(repeats, "duplicate of row " + first.reindex(rows.reasons.index).astype("string"))
    return repeats


def _check_whole_routes(rows: _Rows, faulty: pd.Series[bool]) -> None:
    """Reject routes with a ``faulty`` row, a missing stop, too much load, a customer served twice."""
    numbers = pd.Series(rows.values.index.astype("string"), index=rows.values.index)
    rows.reject_groups(_ROUTE, faulty, "its route has an error in row " + numbers)

    valid_rows = rows.valid_rows
    route = valid_rows.groupby(_ROUTE, sort=False)
    count, last = route["stop"].transform("size"), route["stop"].transform("max")
    twice = valid_rows.duplicated([*_ROUTE, "stop"], keep=False)
    stop = valid_rows["stop"].astype("string")
    rows.reject_groups(_ROUTE, twice, "its route has stop " + stop + " twice")
    gap = "its route has " + count.astype("string") + " stops, numbered up to " + last.astype("string")
    rows.reject_groups(_ROUTE, (count != last) & ~twice, gap)

    capacity = rows.valid_rows["capacity"]
    routes = rows.valid_rows.drop_duplicates(_ROUTE)
    usual = rows.valid_rows["day"].map(routes.groupby("day")["capacity"].agg(lambda day: day.mode().iloc[-1]))
    held, most = capacity.astype("string"), usual.astype("string")
    other = "its capacity is " + held + ", that of most routes of the day " + most
    rows.reject_groups(_ROUTE, capacity != usual, other)

    load = rows.valid_rows.groupby(_ROUTE)["demand"].transform("sum")
    holds = rows.valid_rows["capacity"]
    full = "its route delivers " + load.astype("string") + ", its capacity is " + holds.astype("string")
    rows.reject_groups(_ROUTE, load > holds, full)

    served = rows.valid_rows.duplicated(["day", "node"], keep=False)
    names = "its route serves customer '" + rows.text["customer"] + "', which is served twice that day"
    rows.reject_groups(_ROUTE, served, names)


def _day(city: City, stops: pd.DataFrame) -> CheckedDay:
    by_node = stops.sort_values("node")
    instance = Instance(
        city.city_id,
        by_node["node"].to_numpy(np.uint32),
        by_node["demand"].to_numpy(np.uint16),
        int(stops["capacity"].iloc[0]),
    )
    routes = (route["node"].astype(int).tolist() for _, route in stops.sort_values("stop").groupby("route"))
    return CheckedDay(stops["day"].iloc[0].date(), instance, canonical(city, Solution.of(routes)))
