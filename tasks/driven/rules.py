"""Validation of driven routes, vectorized over columns, with all reasons for each rejected row.

A row without a valid date or route refuses its file: it may belong to any day. Any other faulty row is
rejected with its whole route, as the other stops are not what was driven.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import shown
from mcvrp.model.problem import DEPOT, City, Instance, Solution
from mcvrp.storage.cities import DateOrder
from mcvrp.tasks.driven.stable_files import NotYet
from mcvrp.tasks.files.csv_cells import whole
from mcvrp.tasks.files.file_bytes import Faults

COLUMNS = ("date", "route", "stop", "customer", "demand", "capacity")
_OF_ROW = COLUMNS[2:]
_FIRST_DATE = pd.Timestamp(2000, 1, 1)  # earlier dates are typing errors
_AHEAD = datetime.timedelta(days=7)  # a plan of these days waits for them; dates beyond are errors
_LARGEST = {"stop": 2**16 - 1, "demand": 2**16 - 1, "capacity": 2**32 - 1}  # by the schema of labels
_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_LOCAL_DATE = r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}"  # in one order of day and month per file
_ROUTE = ["day", "route"]


@dataclass(frozen=True)
class CheckedDay:
    """Orders and driven routes of one day."""

    date: datetime.date
    instance: Instance
    solution: Solution


@dataclass(frozen=True)
class KnownDay:
    """Orders and routes of a day in the store, the names of its files, the remedy if another one differs.

    The file that is checked is a new version of all of them if ``replaced``: it has to have their routes.
    """

    files: str
    orders: Instance
    solution: Solution
    remedy: str = ""
    replaced: bool = False


@dataclass(frozen=True)
class RejectedRoute:
    """Rows of a route that was rejected: their numbers and customers, and a sentence for each faulty one.

    It ``contradicts`` the stored day if that has other routes of these customers.
    """

    day: str
    rows: tuple[int, ...]
    customers: tuple[str, ...]
    faults: tuple[str, ...]
    contradicts: bool = False


@dataclass(frozen=True)
class CheckedRoutes:
    """Each row is in a day, in ``rejected`` (and in one of ``routes``), or known.

    ``rejected`` has the rows as they were between the columns ``row`` (number) and ``reason``. ``known`` is
    the number of rows that a stored day has already, or that repeat an earlier row. ``dates`` are the days
    with a valid route, new or known.
    """

    days: tuple[CheckedDay, ...]
    rejected: pd.DataFrame
    routes: tuple[RejectedRoute, ...]
    known: int
    dates: tuple[str, ...]


def days_of(
    name: str, table: pd.DataFrame, *, today: datetime.date, order: DateOrder | None = None
) -> pd.Series[pd.Timestamp]:
    """Return the day of each row of ``table``, the content of the file ``name`` as in `check_routes`.

    ``order`` is that of dates such as 02/11/2026. McvrpError naming the rows without a valid date or a route;
    NotYet if there are days after ``today``, but none after the next week.
    """
    text, faults = _text(table["date"]), Faults(name)
    days, last = dates(text, order), pd.Timestamp(today)
    refuse_dates(text, days, order, faults)
    for why, wrong in (("in the future", days > last + _AHEAD), ("before the year 2000", days < _FIRST_DATE)):
        for row in text.index[wrong]:
            faults.at(row, f"date {shown(text[row])} is {why}")
    for row in text.index[_text(table["route"]).isna()]:
        faults.at(row, "route is missing")
    faults.check()
    if days.max() > last:
        raise NotYet(f"it has routes of {days.max():%Y-%m-%d}: run again from that day")
    return days


def refuse_dates(
    text: pd.Series[str], days: pd.Series[pd.Timestamp], order: DateOrder | None, faults: Faults
) -> None:
    """Add the cells of ``text`` that are no dates to ``faults``; `dates` has read ``days`` by ``order``."""
    day_first, month_first = dates(text, "day-first"), dates(text, "month-first")
    unclear = days.isna() & (day_first.notna() | month_first.notna()) & (order is None)
    for row in text.index[unclear][:1]:
        faults.add(
            f"date {shown(text[row])} in row {row} may have day or month first: set nightly.dates = "
            "day-first or month-first, or --dates of the city, or write dates like 2026-01-31"
        )
    for row in text.index[days.isna() & ~unclear]:
        cell = text[row]
        faults.at(
            row, "date is missing" if pd.isna(cell) else f"date {shown(cell)} is not a date like 2026-01-31"
        )


def check_routes(
    table: pd.DataFrame,
    days: pd.Series[pd.Timestamp],
    city: City,
    nodes: Mapping[str, int],
    *,
    stored: Callable[[datetime.date], KnownDay | None] = lambda date: None,
) -> CheckedRoutes:
    """Return the valid days of ``table``, and its invalid rows with reasons.

    The table has one row per stop with `COLUMNS` as text, and any others; its index has the row numbers, by
    which `days_of` has given ``days``. ``nodes`` has the node of each customer id. A day that is ``stored``
    takes further routes, of customers without an order that day: what is returned is to be added. Of a file
    that contradicts it, nothing is added to that day.
    """
    rows = _Rows.of(table, days, nodes)
    _check_cells(rows)
    rows.known = rows.valid_rows.duplicated().reindex(days.index, fill_value=False)
    _check_whole_routes(rows)
    _reject_rest(rows)
    for date in rows.valid_rows["day"].drop_duplicates().dt.date:
        if day := stored(date):
            _check_stored(rows, date, day, symmetric=city.symmetric)
    _reject_rest(rows)
    bad = rows.reasons != ""
    # these columns are there in a quarantine file that was corrected
    rejected = table[bad].drop(columns=["row", "reason"], errors="ignore")
    rejected.insert(0, "row", rejected.index)
    rejected["reason"] = rows.reasons[bad]
    return CheckedRoutes(
        tuple(_day(city, stops) for _, stops in rows.valid_rows.groupby("day", sort=True)),
        rejected.reset_index(drop=True),
        tuple(_rejected_routes(rows)),
        int((rows.known & ~bad).sum()),
        tuple(sorted(rows.values["day"][~bad].dt.strftime("%Y-%m-%d").unique())),
    )


def _text(cells: pd.Series[str]) -> pd.Series[str]:
    text = cells.astype("string").str.strip()
    return text.where(text != "")


@dataclass
class _Rows:
    """Rows as text and as parsed values (missing if invalid), and the reasons for which each was rejected.

    ``faulty`` rows are rejected for their own sake, others with their route or day. ``known`` rows are in a
    stored day, or repeat an earlier row; others ``contradict`` a stored day.
    """

    text: pd.DataFrame
    values: pd.DataFrame
    reasons: pd.Series[str]
    faulty: pd.Series[bool] = field(init=False)
    known: pd.Series[bool] = field(init=False)
    contradict: pd.Series[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.faulty, self.known, self.contradict = (
            pd.Series(False, index=self.reasons.index) for _ in range(3)
        )

    @classmethod
    def of(cls, table: pd.DataFrame, days: pd.Series[pd.Timestamp], nodes: Mapping[str, int]) -> _Rows:
        text = pd.DataFrame({name: _text(table[name]) for name in COLUMNS})
        node = text["customer"].map(nodes).astype("Int64")
        values = pd.DataFrame({"day": days, "route": text["route"], "node": node})
        for name, largest in _LARGEST.items():
            numbers = (whole(cell) for cell in text[name].fillna(""))
            fitting = [number if number and 1 <= number <= largest else None for number in numbers]
            values[name] = pd.array(fitting, dtype="Int64")
        return cls(text, values, pd.Series("", index=table.index, dtype="string"))

    def reject(self, where: pd.Series[bool], reason: str | pd.Series[str]) -> None:
        """Reject the rows ``where``, also for this reason."""
        rows = where.index[where.fillna(False).astype(bool)]
        if len(rows):
            before = self.reasons[rows]
            text = reason if isinstance(reason, str) else reason[rows]
            self.reasons.loc[rows] = before.where(before == "", before + "; ") + text
            self.faulty.loc[rows] = True

    def reject_first(self, where: pd.Series[bool], reason: pd.Series[str]) -> None:
        """Reject the first of the rows ``where`` of each route; `_reject_rest` does its other rows."""
        rows = where.index[where.fillna(False).astype(bool)]
        first = self.values.loc[rows].drop_duplicates(_ROUTE).index
        self.reject(pd.Series(True, index=first), reason)

    @property
    def valid_rows(self) -> pd.DataFrame:
        """Values of the rows that are new and not rejected so far."""
        return self.values[(self.reasons == "") & ~self.known]


def dates(text: pd.Series[str], order: DateOrder | None = None) -> pd.Series[pd.Timestamp]:
    """Return the dates, NaT if invalid; 21/02/2026 by ``order``, or if all of the file agree on one."""
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
    if order:
        orders = [day_first if order == "day-first" else month_first]
    if orders and (len(orders) == 1 or orders[0][others].equals(orders[1][others])):
        dates = dates.where(dotted | ~local, orders[0].reindex(dates.index))
    return dates


def _check_cells(rows: _Rows) -> None:
    text, values = rows.text, rows.values
    for name in _OF_ROW:
        rows.reject(text[name].isna(), f"{name} is missing")
    cell = {name: name + " '" + text[name].str.slice(0, 40) + "'" for name in _OF_ROW}
    for name, largest in _LARGEST.items():
        wrong = values[name].isna() & text[name].notna()
        rows.reject(wrong, cell[name] + f" is not a whole number from 1 to {largest:,}")
    unknown = values["node"].isna() & text["customer"].notna()
    rows.reject(unknown, cell["customer"] + " is not in the city")
    rows.reject(values["node"] == DEPOT, cell["customer"] + " is the depot: list only customers")


def _check_whole_routes(rows: _Rows) -> None:
    """Reject routes with a missing stop, another capacity, too much load, a customer served twice.

    Each is checked whatever else is wrong, as far as the cells that it needs are valid.
    """
    values = rows.values[~rows.known]
    text, routes = values.astype("string"), values.groupby(_ROUTE, sort=False)
    valid = {
        name: values[name].notna().groupby([values[key] for key in _ROUTE]).transform("all")
        for name in _LARGEST
    }

    twice = values["stop"].notna() & values.duplicated([*_ROUTE, "stop"], keep=False)
    rows.reject(twice, "its route has stop " + text["stop"] + " twice")
    count, last = routes["stop"].transform("size"), routes["stop"].transform("max")
    gap = "its route has " + count.astype("string") + " stops, numbered up to " + last.astype("string")
    rows.reject_first(valid["stop"] & (last > count), gap)

    one_each = rows.valid_rows.drop_duplicates(_ROUTE)
    most = one_each.groupby("day")["capacity"].agg(lambda day: day.mode().iloc[-1])
    usual = values["day"].map(most).astype("Int64")
    other = (
        "its capacity is " + text["capacity"] + ", that of most routes of the day " + usual.astype("string")
    )
    rows.reject_first(values["capacity"] != usual, other)

    load = routes["demand"].transform("sum")
    full = "its route delivers " + load.astype("string") + ", its capacity is " + text["capacity"]
    rows.reject_first(valid["demand"] & (load > values["capacity"]), full)

    served = values["node"].notna() & values.duplicated(["day", "node"], keep=False)
    rows.reject(served, "customer '" + rows.text["customer"] + "' is served twice that day")


def _check_stored(rows: _Rows, date: datetime.date, day: KnownDay, *, symmetric: bool) -> None:
    """Find the routes that the stored ``day`` has; reject the others of ``date`` if one contradicts it."""
    before, of_day = day.orders, rows.valid_rows
    source = f"{date}, which was read from {day.files}{day.remedy}"
    of_day = of_day[of_day["day"] == pd.Timestamp(date)]
    routes = set(day.solution.routes)
    if symmetric:  # they are stored in their canonical direction
        routes |= {route[::-1] for route in routes}
    ordered = of_day.sort_values("stop").groupby("route")["node"]
    nodes = ordered.agg(tuple)
    complete = (rows.reasons[rows.values["day"] == pd.Timestamp(date)] == "").all()
    if day.replaced and complete and len(routes.intersection(nodes)) < len(day.solution.routes):
        everywhere = pd.Series(True, index=of_day.index)
        rows.reject_first(everywhere, pd.Series(f"the file lacks a route of {source}", index=of_day.index))
        rows.contradict.loc[of_day.index] = True
        return
    driven = of_day["route"].map(nodes.isin(routes))
    served = of_day["node"].map(dict(zip(before.ids.tolist(), before.demands.tolist(), strict=True)))
    equal = (served == of_day["demand"]) & (of_day["capacity"] == before.capacity)
    known = equal.fillna(False).astype(bool).groupby(of_day["route"]).transform("all") & driven.astype(bool)
    rows.known.loc[of_day.index] |= known
    twice, other = served.notna() & ~known, (of_day["capacity"] != before.capacity) & ~known
    if twice.any() or other.any():
        rows.reject(twice, "customer '" + rows.text["customer"] + f"' is on another route of {source}")
        capacity = of_day["capacity"].astype("string")
        rows.reject_first(other, "its capacity is " + capacity + f", not {before.capacity} as on {source}")
        rows.contradict.loc[known.index] |= ~known


def _reject_rest(rows: _Rows) -> None:
    """Reject the other rows of routes with a faulty row, and other routes of a day that is contradicted."""
    number = pd.Series(rows.values.index.astype("string"), index=rows.values.index)
    first = rows.values[rows.faulty].assign(first=number).drop_duplicates(_ROUTE)[[*_ROUTE, "first"]]
    error = rows.values[_ROUTE].merge(first, on=_ROUTE, how="left")["first"].set_axis(number.index)
    why = ("its route has an error in row " + error).fillna("other routes of the file contradict its day")
    rest = (rows.reasons == "") & (error.notna() | rows.contradict)
    rows.reasons = rows.reasons.mask(rest, why)


def _rejected_routes(rows: _Rows) -> Iterator[RejectedRoute]:
    customers = rows.text["customer"].fillna("")
    for (day, _), route in rows.values[rows.reasons != ""].groupby(_ROUTE, sort=False):
        faulty = (row for row in route.index if rows.faulty[row])
        yield RejectedRoute(
            f"{day:%Y-%m-%d}",
            tuple(map(int, route.index)),
            tuple(customers[route.index]),
            tuple(_fault(row, customers[row], rows.reasons[row]) for row in faulty),
            bool(rows.contradict[route.index].any()),
        )


def _fault(row: int, customer: str, reason: str) -> str:
    return (
        f"row {row}: {reason}" if "customer" in reason else f"row {row}, customer {shown(customer)}: {reason}"
    )


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
