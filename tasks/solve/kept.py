"""Decided routes of a day, which stay as they are: the rest of the day is planned beside them."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pandas as pd

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City, Instance, Solution
from mcvrp.storage.cities import UNKNOWN, Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import NO, YES, Tabular, read_tabular
from mcvrp.tasks.solve.orders import MOST, rows_of
from mcvrp.tasks.solve.spec import CLOCK
from mcvrp.tasks.solvers.pyvrp import only
from mcvrp.tasks.solvers.solver import Limits
from mcvrp.tasks.support.text import counted

_COLUMNS, _KEPT = ("route", "stop", "customer"), "kept"

Route = tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """Decided routes of a file, in the city's node numbers."""

    name: str  # of the file
    routes: tuple[Route, ...]
    names: tuple[str, ...] = ()  # of the routes
    starts: tuple[str, ...] = ()  # of the routes from the depot, as 08:00, "" if unknown
    marked: bool = False  # whether the file says which routes are kept; otherwise all are
    others: tuple[str, ...] = ()  # names of the routes that are not kept


@dataclass(frozen=True)
class Rest:
    """Part of a day that is still to be planned, with the vehicles that are free.

    ``start``, if any, serves ``instance`` within the limits.
    """

    city: City
    instance: Instance
    limits: Limits
    start: Solution | None = None

    def without(self, left_out: Collection[int], start: Solution) -> Rest | None:
        """Return the rest without those ``left_out``, served by ``start``; None if nobody remains."""
        served = only(self.instance, set(self.instance.ids.tolist()) - set(left_out))
        return replace(self, instance=served, start=start) if served else None


def read_kept(
    store: Store,
    place: str,
    addresses: Addresses,
    instance: Instance,
    date: datetime.date | None = None,
    name: str = "city",
) -> Kept:
    """Return the decided routes in the file ``place``, like ``routes.csv`` of a day, of the city ``name``.

    With a column ``kept``, only routes whose stops are marked are decided. ``date`` is that of `rows_of`.

    Raises McvrpError if columns are missing, nothing is kept, or rows have faults, which are all listed:
    unmarked stops of a marked route and other demands than those ordered, too.
    """
    table = read_tabular(*file_bytes(store, place)).calling(addresses.columns)
    table = rows_of(table, date, addresses.dates, name)
    faults = Faults(table.name)
    routes, marks = _routes(table, addresses, name, faults), _marks(table, faults)
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    column = table.column("demand")
    demands = pd.Series(table.text(column) if column else "", table.rows)
    kept, others, most = dict[str, Route](), list[str](), min(instance.capacity, MOST)
    for title, stops in routes.items():
        if not marks[stops.index].any():
            others.append(title)
            continue
        kept[title] = nodes = tuple(stops["node"].tolist())
        route = f"route {shown(title)}"
        for row in stops.index[~marks[stops.index]]:
            where = f"stop {stops['number'][row]:g} of {route}"
            faults.at(row, f"{where} is not kept, unlike others of it: mark all of its stops, or none")
        for row in stops.index[stops["node"].isin(list(demand))]:
            ordered = demand[stops["node"][row]]
            if (cell := demands[row]) and cell.removesuffix(".0") != str(ordered):
                mend = "correct one of them; a second order needs its own id (mcvrp city extend)"
                stop = f"the demand of {shown(stops['customer'][row])} is {shown(cell)}"
                faults.at(row, f"{stop}, and {ordered:,} in the orders: {mend}")
        for row in stops.index[~stops["node"].isin([UNKNOWN, *demand])]:
            stop = f"the kept stop at {shown(stops['customer'][row])} has no order that fits in a vehicle"
            faults.at(row, f"{stop}: remove this row if it was cancelled, otherwise add or split the order")
        if (load := sum(demand.get(node, 0) for node in nodes)) > most:
            faults.add(f"{route} has a demand of {load:,}, more than {most:,}")
    faults.check()
    if not kept:
        raise McvrpError(f"{table.name} keeps no route: mark stops in its column {_KEPT}, or omit --keep")
    left, marked = _departures(table, addresses), table.column(_KEPT) is not None
    starts = tuple(left.get(route, "") for route in kept)
    return Kept(table.name, tuple(kept.values()), tuple(kept), starts, marked, tuple(others))


def _routes(table: Tabular, addresses: Addresses, city: str, faults: Faults) -> dict[str, pd.DataFrame]:
    """Return the stops of each route of ``table`` in their order: number, customer and node, by row.

    Stops at the depot are skipped. Wrong rows are added to ``faults``. ``city`` is the name of the city.
    Raises McvrpError if columns are missing.
    """
    columns = [table.column(field) or "" for field in _COLUMNS]
    if "" in columns:
        missing = _COLUMNS[columns.index("")]
        raise table.lacks(missing, "add route, stop and customer, or name them in --columns")
    route, stop, customer = columns
    names = table.ids(customer)
    content = {"route": table.ids(route), "number": table.numbers(stop, faults), "customer": names}
    stops = pd.DataFrame(content | {"node": addresses.nodes(names.tolist())}, index=table.rows)
    for row in stops.index[stops["route"] == ""]:
        faults.at(row, "route is missing")
    stops = stops[stops["node"] != DEPOT]
    for row, first in _repeated(stops.dropna(), "route", "number"):
        number = f"{stops['number'][row]:g}, in row {first}"
        faults.at(row, f"route {shown(stops['route'][row])} already has stop {number}")
    for row in stops.index[stops["node"] == UNKNOWN]:
        faults.at(row, f"{shown(stops['customer'][row])} is not a customer of city {city!r}")
    for row, first in _repeated(stops[stops["node"] != UNKNOWN], "node"):
        faults.at(row, f"customer {shown(stops['customer'][row])} is already on a route, in row {first}")
    by_route = stops.groupby("route", sort=False)
    return {str(name): each.sort_values("number", kind="stable") for name, each in by_route}


def _repeated(stops: pd.DataFrame, *columns: str) -> Iterator[tuple[int, int]]:
    """Yield the rows of ``stops`` whose ``columns`` an earlier row has, each with the first such row."""
    rows = stops.index.to_series()
    firsts = rows.groupby([stops[column] for column in columns]).transform("first")
    yield from ((row, firsts[row]) for row in rows[rows != firsts])


def _marks(table: Tabular, faults: Faults) -> pd.Series[bool]:
    """Return whether each row is marked as kept; all are without a column."""
    if (column := table.column(_KEPT)) is None:
        return pd.Series(True, table.rows)
    cells = pd.Series(table.text(column), table.rows).str.casefold()
    for row in cells.index[~cells.isin(YES + NO)]:
        faults.at(row, f"{_KEPT} is {shown(cells[row])}, not yes, x or 1, nor no, 0 or empty")
    return cells.isin(YES)


def _departures(table: Tabular, addresses: Addresses) -> dict[str, str]:
    """Return by route when it leaves the depot; McvrpError if that is no time of day."""
    if (column := table.column("departure")) is None:
        return {}
    route, _, customer = (table.column(field) or "" for field in _COLUMNS)
    nodes = addresses.nodes(table.ids(customer).tolist())
    left = pd.Series(table.text(column), table.rows)
    left = left.str.replace(r"^(\d+:\d\d):00$", r"\1", regex=True)  # of a workbook's cell
    rows = pd.DataFrame({"route": table.ids(route), "left": left, "at": nodes}, table.rows)
    rows, faults = rows[(rows["at"] == DEPOT) & (rows["left"] != "")], Faults(table.name)
    for row in rows.index[~rows["left"].str.fullmatch(CLOCK)]:
        faults.at(row, f"departure is {shown(rows['left'][row])}, not a time of day such as 08:00")
    faults.check()
    return dict(zip(rows["route"], rows["left"], strict=True))


def rest_of(
    kept: Kept | None, city: City, instance: Instance, limits: Limits, *, drop: bool = False
) -> Rest | None:
    """Return what is left to plan of ``instance`` beside routes that are ``kept``, None if all is decided.

    Raises McvrpError if more routes are kept than the fleet has vehicles, or customers who may not be left
    out (``drop``) remain without any.
    """
    if kept is None:
        return Rest(city, instance, limits)
    decided = {node for route in kept.routes for node in route}
    free = only(instance, set(instance.ids.tolist()) - decided)
    if limits.fleet is not None:
        count = len(kept.routes)
        if limits.fleet < count or (free and not drop and limits.fleet == count):
            raise McvrpError(
                f"{kept.name} keeps {counted(count, 'route')}, --fleet allows {limits.fleet:,}, and "
                f"{counted(free.n if free else 0, 'customer')} without a route: increase it, or keep fewer"
            )
        limits = replace(limits, fleet=limits.fleet - count)
    return Rest(city, free, limits) if free else None
