"""Rules that driven routes keep to be learned from, over whole columns; a reason for each row that fails.

A faulty row takes its route along, as the order of the others is then not what was driven; the
other routes of its day stay, since they serve their customers whatever becomes of that one. A
row that repeats another one goes alone. Knows tables, not files.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import DEPOT, City, Instance, Solution
from mcvrp.tasks.files.numbers import whole

COLUMNS = ("date", "route", "stop", "customer", "demand", "capacity")
FIRST_DATE = datetime.date(2000, 1, 1)  # before it, a date is a slip of the pen
_LARGEST = {"stop": 2**16 - 1, "demand": 2**16 - 1, "capacity": 2**32 - 1}  # what labels can hold
_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_DAY, _ROUTE = ["day"], ["day", "route"]


@dataclass(frozen=True)
class CheckedDay:
    """One day's orders, and the routes that people drove; ``rows`` are the table's that say so."""

    date: datetime.date
    instance: Instance
    solution: Solution
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class CheckedRoutes:
    """Result of `check_routes`: each of its rows is in a day or among the rejected, in one.

    ``rejected`` are rows as they came, with their number ``row`` in front and a ``reason`` behind.
    """

    days: tuple[CheckedDay, ...]
    rejected: pd.DataFrame


def check_routes(
    table: pd.DataFrame,
    city: City,
    nodes: Mapping[str, int],
    *,
    today: datetime.date,
    taken: Mapping[datetime.date, str] | None = None,
) -> CheckedRoutes:
    """Return the days of ``table`` whose routes keep every rule, and the rows that do not, with the reason.

    Parameters
    ----------
    table
        A row a stop, `COLUMNS` as text, others are let through; its index numbers the rows.
    nodes
        The city's node of each name.
    today
        Later dates are not believed.
    taken
        Days that are known already, and from where.
    """
    rows = _Rows.of(table, nodes)
    _check_cells(rows, today, taken or {})
    repeats = _check_repeats(rows)
    _check_whole_routes(rows, faulty=rows.reasons.notna() & ~repeats)
    good = rows.values[rows.reasons.isna()]
    days = tuple(_day(city, stops) for _, stops in good.groupby("day", sort=True))
    bad = rows.reasons.notna()
    rejected = table[bad].drop(columns=["row", "reason"], errors="ignore")  # of a quarantine sent again
    rejected.insert(0, "row", rejected.index)
    rejected["reason"] = rows.reasons[bad]
    return CheckedRoutes(days, rejected.reset_index(drop=True))


@dataclass
class _Rows:
    """The rows as text and as values (missing where they are none), and why each was rejected, if it was."""

    text: pd.DataFrame
    values: pd.DataFrame
    reasons: pd.Series[str]

    @classmethod
    def of(cls, table: pd.DataFrame, nodes: Mapping[str, int]) -> _Rows:
        text = pd.DataFrame({name: table[name].astype("string").str.strip() for name in COLUMNS})
        text = text.replace("", pd.NA)
        written = text["date"].str.fullmatch(_DATE).fillna(False).astype(bool)  # pandas reads all scripts
        values = pd.DataFrame(
            {
                "day": pd.to_datetime(text["date"].where(written), format="%Y-%m-%d", errors="coerce"),
                "route": text["route"],
                "node": text["customer"].map(nodes).astype("Int64"),
            }
        )
        for name, largest in _LARGEST.items():
            numbers = (whole(cell) for cell in text[name].fillna(""))
            fitting = [number if number and 1 <= number <= largest else None for number in numbers]
            values[name] = pd.array(fitting, dtype="Int64")
        return cls(text, values, pd.Series(pd.NA, index=table.index, dtype="string"))

    def reject(self, where: pd.Series[bool], reason: str | pd.Series[str]) -> None:
        """Give the rows ``where`` this reason, unless they have one."""
        where = where.fillna(False).astype(bool) & self.reasons.isna()
        self.reasons = self.reasons.mask(where, reason)

    @property
    def valid_rows(self) -> pd.DataFrame:
        """The values of rows that have broken no rule so far."""
        return self.values[self.reasons.isna()]

    def reject_groups(self, by: list[str], broken: pd.Series[bool], reasons: pd.Series[str]) -> None:
        """Reject all rows of the groups ``by`` that have a ``broken`` row, for the reason of the first."""
        hit = self.values.loc[broken.index[broken.fillna(False).astype(bool)], by].copy()
        if hit.empty:
            return
        hit["why"] = reasons.reindex(hit.index)
        why = self.values[by].merge(hit.drop_duplicates(by), on=by, how="left")["why"]
        why.index = self.values.index
        self.reject(why.notna(), why)


def _check_cells(rows: _Rows, today: datetime.date, taken: Mapping[datetime.date, str]) -> None:
    text, values = rows.text, rows.values
    for name in COLUMNS:
        rows.reject(text[name].isna(), f"no {name}")
    quoted = {name: "'" + text[name].str.slice(0, 40) + "'" for name in COLUMNS}
    rows.reject(values["day"].isna(), "date " + quoted["date"] + " is no day written as 2026-01-31")
    rows.reject(values["day"] > pd.Timestamp(today), "date " + quoted["date"] + " lies in the future")
    rows.reject(
        values["day"] < pd.Timestamp(FIRST_DATE), "date " + quoted["date"] + " is before the year 2000"
    )
    for name, largest in _LARGEST.items():
        rows.reject(
            values[name].isna(), name + " " + quoted[name] + f" is no whole number from 1 to {largest:,}"
        )
    rows.reject(values["node"].isna(), "customer " + quoted["customer"] + " is not in the city")
    rows.reject(
        values["node"] == DEPOT, "customer " + quoted["customer"] + " is the depot: list customers only"
    )
    known = values["day"].map({pd.Timestamp(day): where for day, where in taken.items()})
    rows.reject(known.notna(), "day " + text["date"] + " is known already, from " + known.astype("string"))


def _check_repeats(rows: _Rows) -> pd.Series[bool]:
    """Reject rows that say what an earlier one says, and return which those are."""
    valid_rows = rows.valid_rows
    first = valid_rows.groupby([*valid_rows.columns], sort=False)["day"].transform(lambda same: same.index[0])
    again = pd.Series(first.to_numpy() != valid_rows.index, index=valid_rows.index)
    again = again.reindex(rows.reasons.index, fill_value=False).astype(bool)
    rows.reject(again, "repeats row " + first.reindex(rows.reasons.index).astype("string"))
    return again


def _check_whole_routes(rows: _Rows, faulty: pd.Series[bool]) -> None:
    """Reject routes with a ``faulty`` row, an order with gaps, too much load, a customer served twice."""
    rows.reject_groups(_ROUTE, faulty, "its route has a fault in row " + _numbers(rows.values))

    valid_rows = rows.valid_rows
    route = valid_rows.groupby(_ROUTE, sort=False)
    count, last = route["stop"].transform("size"), route["stop"].transform("max")
    twice = valid_rows.duplicated([*_ROUTE, "stop"], keep=False)
    stop = valid_rows["stop"].astype("string")
    rows.reject_groups(_ROUTE, twice, "its route has stop " + stop + " twice")
    gap = "its route has " + count.astype("string") + " stops, the last is number " + last.astype("string")
    rows.reject_groups(_ROUTE, (count != last) & ~twice, gap)

    capacity = rows.valid_rows["capacity"]
    usual = rows.valid_rows.groupby(_DAY)["capacity"].transform(lambda held: held.mode().iloc[-1])
    other = (
        "its vehicle holds " + capacity.astype("string") + ", most of that day hold " + usual.astype("string")
    )
    rows.reject_groups(_ROUTE, capacity != usual, other)

    load = rows.valid_rows.groupby(_ROUTE)["demand"].transform("sum")
    holds = rows.valid_rows["capacity"]
    full = "its route delivers " + load.astype("string") + ", the vehicle holds " + holds.astype("string")
    rows.reject_groups(_ROUTE, load > holds, full)

    served = rows.valid_rows.duplicated(["day", "node"], keep=False)
    names = "its route serves customer '" + rows.text["customer"] + "', who is served twice that day"
    rows.reject_groups(_ROUTE, served, names)


def _numbers(values: pd.DataFrame) -> pd.Series[str]:
    return pd.Series(values.index.astype("string"), index=values.index)


def _day(city: City, stops: pd.DataFrame) -> CheckedDay:
    by_node = stops.sort_values("node")
    instance = Instance(
        city.city_id,
        by_node["node"].to_numpy(np.uint32),
        by_node["demand"].to_numpy(np.uint16),
        int(stops["capacity"].iloc[0]),
    )
    solution = Solution.of(_driven(stops))
    rows = np.sort(stops.index.to_numpy(np.int64))
    return CheckedDay(stops["day"].iloc[0].date(), instance, canonical(city, solution), rows)


def _driven(stops: pd.DataFrame) -> Iterator[list[int]]:
    for _, route in stops.sort_values("stop").groupby("route", sort=True):
        yield route["node"].astype(int).tolist()
