"""Validation of a file of driven routes: its days as they were driven, or one error that names faulty rows.

A file is valid as a whole or not at all: what is left of a day without one of its routes was never driven.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import shown
from mcvrp.model.problem import DEPOT, City, Instance, Solution
from mcvrp.storage.cities import UNKNOWN, StoredCity
from mcvrp.tasks.files.cells import dates, lack_order
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import Tabular

_FIRST_DATE = pd.Timestamp(2000, 1, 1)  # earlier dates are typing errors
_LARGEST = {"stop": 2**16 - 1, "demand": 2**16 - 1, "capacity": 2**32 - 1}  # by the schema of labels
COLUMNS = ("date", "route", "customer", *_LARGEST)
_MIDNIGHT = " 00:00:00"  # suffix of a date that was stored as a timestamp


@dataclass(frozen=True)
class CheckedDay:
    """Orders and driven routes of one day."""

    date: datetime.date
    instance: Instance
    solution: Solution


def checked_days(table: Tabular, city: StoredCity, *, today: datetime.date) -> list[CheckedDay]:
    """Return the days of ``table``, which has a column for each of `COLUMNS` and one row per stop, by date.

    McvrpError names all rows that are not valid, such as those of days after ``today``.
    """
    faults = Faults(table.name)
    column = {name: table.column(name) or name for name in COLUMNS}
    stops = pd.DataFrame(
        {
            "day": _days(pd.Series(table.text(column["date"]), table.rows), city, today, faults),
            "route": table.ids(column["route"]),
            "node": _nodes(table, column["customer"], city, faults),
        },
        index=table.rows,
    )
    for name, largest in _LARGEST.items():
        stops[name] = table.whole_numbers(column[name], 1, largest, faults)
    for row in stops.index[stops["route"] == ""]:
        faults.at(row, "route is missing")
    faults.check()
    _check_routes(stops, city.addresses.ids, faults)
    faults.check()
    return [_day(city.city, day) for _, day in stops.groupby("day", sort=True)]


def _days(
    cells: pd.Series[str], city: StoredCity, today: datetime.date, faults: Faults
) -> pd.Series[pd.Timestamp]:
    """Return the day of each row; those without a valid one are added to ``faults``."""
    text, order = cells.astype("string").str.removesuffix(_MIDNIGHT), city.addresses.dates
    days, unclear = dates(text, order), lack_order(text, order)
    for row in text.index[unclear][:1]:
        faults.add(
            f"date {shown(text[row])} in row {row} may have day or month first: give their order "
            f"(mcvrp city set {city.name} --dates day-first|month-first), or write dates like 2026-01-31"
        )
    ahead = days > pd.Timestamp(today)
    for why, wrong in (
        ("is not a date like 2026-01-31", days.isna() & ~unclear),
        ("is in the future", ahead),
        ("is before the year 2000", days < _FIRST_DATE),
    ):
        for row in text.index[wrong]:
            faults.at(row, f"date {shown(text[row])} {why}" if text[row] else "date is missing")
    return days


def _nodes(table: Tabular, column: str, city: StoredCity, faults: Faults) -> NDArray[np.int64]:
    """Return the node of each row's customer; those without one are added to ``faults``."""
    customers = table.ids(column)
    nodes = city.addresses.nodes(customers)
    for why, node in (("is not in the city", UNKNOWN), ("is the depot: list only customers", DEPOT)):
        for k in np.flatnonzero(nodes == node):
            what = f"customer {shown(customers[k])} {why}" if customers[k] else "customer is missing"
            faults.at(table.rows[k], what)
    return nodes


def _check_routes(stops: pd.DataFrame, ids: Sequence[str], faults: Faults) -> None:
    """Add what is wrong with whole routes and days, each at the row in which it shows, to ``faults``."""
    for row in stops.index[stops.duplicated(["day", "route", "stop"])]:
        faults.at(row, f"route {shown(stops['route'][row])} has stop {stops['stop'][row]} twice")
    for row in stops.index[stops.duplicated(["day", "node"])]:
        customer, day = shown(ids[stops["node"][row]]), stops["day"][row]
        faults.at(row, f"customer {customer} is served twice on {day:%Y-%m-%d}")
    firsts = stops.reset_index(names="row").drop_duplicates("day").set_index("day")
    for row in stops.index[stops["capacity"] != stops["day"].map(firsts["capacity"])]:
        first, capacity = firsts.loc[stops["day"][row], ["row", "capacity"]]
        other = f"capacity is {stops['capacity'][row]}, but {capacity} in row {first}"
        faults.at(row, f"{other}: all vehicles of a day have the same")
    routes = stops.sort_values("stop").groupby(["day", "route"], sort=False)
    before, load = routes["stop"].shift(fill_value=0), routes["demand"].transform("sum")
    step = stops["stop"] - before
    for row in step.index[step > 1]:
        route = f"route {shown(stops['route'][row])}"
        faults.at(row, f"{route} has stop {stops['stop'][row]}, but no stop {before[row] + 1}")
    for row in stops.drop_duplicates(["day", "route"]).index:
        if load[row] > stops["capacity"][row]:
            route = f"route {shown(stops['route'][row])}"
            faults.at(row, f"{route} delivers {load[row]:,}, its capacity is {stops['capacity'][row]:,}")


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
