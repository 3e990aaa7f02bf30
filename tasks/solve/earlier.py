"""Routes of a file for a day: decided ones, which stay, and earlier ones, from which its search starts.

Decided routes are taken out of the day, and the rest is planned beside them.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City, Instance, Solution, cost
from mcvrp.storage.cities import UNKNOWN, Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.csv_cells import whole
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import NO, YES, Tabular, column_key, read_tabular
from mcvrp.tasks.solve.orders import MOST, rows_of
from mcvrp.tasks.solve.spec import CLOCK
from mcvrp.tasks.solvers.pyvrp import only
from mcvrp.tasks.solvers.solver import Limits
from mcvrp.tasks.support.text import counted, length_text, listed

TIMES = "arrival_minutes", "arrival", "departure"  # columns that a day may lack
# Columns of routes.csv, properties of routes.geojson, and names by which customers are read.
OWN = (
    *("date", "route", "stop", "customer", "demand", "capacity", "load_after", "leg_cost", "cumulative_cost"),
    *("lat", "lon", "x", "y", "id", "customer_id", "kept"),
    *("kind", "customers", "load", "utilisation", "cost", "stroke", "stroke-width", "marker-color"),
    *("minutes", "kilometres", "legs", *TIMES),
)
_COLUMNS, _KEPT = ("route", "stop", "customer"), "kept"

Route = tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """Routes of a file for a day, in the city's node numbers: decided ones, and the others."""

    name: str  # of the file
    routes: tuple[Route, ...]
    others: tuple[Route, ...] = ()
    names: tuple[str, ...] = ()  # of the decided ones
    unread: tuple[str, ...] = ()  # columns that are neither read nor those of a `routes.csv`
    starts: tuple[str, ...] = ()  # of the decided ones from the depot, as 08:00, "" if unknown
    unmarked: tuple[str, ...] = ()  # names of the others


@dataclass(frozen=True)
class Rest:
    """Part of a day that is still to be planned, with the vehicles that are free.

    ``start`` serves ``instance``, perhaps beyond the limits.
    """

    city: City
    instance: Instance
    limits: Limits
    start: Solution | None = None

    def served(self, solution: Solution) -> Solution:
        """Return ``solution`` without customers who are not in ``instance``."""
        nodes = set(self.instance.ids.tolist())
        return Solution.of([node for node in route if node in nodes] for route in solution.routes)

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
    carried: Collection[str] = (),
) -> Kept:
    """Return the decided routes in the file ``place``, like ``routes.csv`` of a day, of the city ``name``.

    With a column ``kept``, only routes whose stops are marked are decided. ``date`` is that of `rows_of`,
    ``carried`` are columns of the orders.

    Raises McvrpError if columns are missing or ``kept`` is misspelt, nothing is kept, or rows have faults,
    which are all listed: unmarked stops of a marked route and other demands than those ordered, too.
    """
    table = read_tabular(*file_bytes(store, place)).calling(addresses.columns)
    table = rows_of(table, date, addresses.dates, name)
    faults = Faults(table.name)
    routes, marks = read_routes(table, addresses, name, faults), _marks(table, faults)
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    column = table.column("demand")
    demands = pd.Series(table.text(column) if column else "", table.rows)
    kept, others, most = dict[str, Route](), dict[str, Route](), min(instance.capacity, MOST)
    for stops in routes:
        nodes, marked = tuple(stops["node"].tolist()), marks[stops.index]
        if not marked.any():
            others[stops["route"].iloc[0]] = nodes
            continue
        kept[stops["route"].iloc[0]] = nodes
        route = f"route {shown(stops['route'].iloc[0])}"
        for row in stops.index[~marked]:
            where = f"stop {stops['number'][row]:g} of {route}"
            faults.at(row, f"{where} is not kept, unlike others of it: mark all of its stops, or none")
        for row in stops.index[stops["number"] < 1]:
            where = f"the stop at {shown(stops['customer'][row])}"
            faults.at(row, f"{where} is number {stops['number'][row]:g}, not 1 or more")
        for row in stops.index[stops["node"].isin(list(demand))]:
            ordered = demand[stops["node"][row]]
            if (cell := demands[row]) and whole(cell) != ordered:
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
    left = _departures(table, addresses)
    return Kept(
        table.name,
        tuple(kept.values()),
        tuple(others.values()),
        names=tuple(kept),
        unmarked=tuple(others),
        unread=_unread(table, [*addresses.further, *carried]),
        starts=tuple(left.get(route, "") for route in kept),
    )


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


def _unread(table: Tabular, carried: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are not read; McvrpError if one may be a misspelt ``kept``."""
    known = {column_key(title) for title in (*OWN, "service_seconds", *carried)}
    known |= {f"{file}_{name}" for file in ("address", "order") for name in known}
    unread = [name for name in table.titles if name not in known.union(table.called.values())]
    table.refuse_misspelt((_KEPT,), dict(zip(unread, unread, strict=True)), cutoff=0.75)
    return tuple(table.titles[name] for name in unread)


def _marks(table: Tabular, faults: Faults) -> pd.Series[bool]:
    """Return whether each row is marked as kept; all are without a column."""
    if (column := table.column(_KEPT)) is None:
        return pd.Series(True, table.rows)
    cells = pd.Series(table.text(column), table.rows).str.casefold()
    for row in cells.index[~cells.isin(YES + NO)]:
        faults.at(row, f"{_KEPT} is {shown(cells[row])}, not yes, x or 1, nor no, 0 or empty")
    return cells.isin(YES)


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
    if free is None:
        return None
    return Rest(city, free, limits, fitted_routes(city, free, kept.others) if kept.others else None)


@dataclass(frozen=True)
class Start:
    """Routes of another day, adapted to serve this one, and a note on them."""

    solution: Solution
    note: str


def read_start(
    store: Store, place: str, city: City, addresses: Addresses, instance: Instance, name: str = "city"
) -> Start:
    """Return the routes in the file ``place`` as a start for ``instance`` of the city ``name``.

    The file, local or "store:PATH" in the store, is a table with the columns route, stop and customer, as in
    ``routes.csv`` of a day. Stops at the depot are skipped.

    Raises McvrpError if columns are missing, there are several days, or rows have faults, which are all
    listed.
    """
    table = read_tabular(*file_bytes(store, place)).calling(addresses.columns)
    faults = Faults(table.name)
    stops = read_routes(table, addresses, name, faults)
    faults.check()
    earlier = [route["node"].tolist() for route in stops]
    solution = fitted_routes(city, instance, earlier)
    kept = len({node for route in earlier for node in route} & set(instance.ids.tolist()))
    price = length_text(cost(city, solution), city.unit)
    found = f"{table.name} has {kept:,} of {counted(instance.n, 'customer')}"
    return Start(solution, f"{found}; with the others its routes cost {price}")


def read_routes(table: Tabular, addresses: Addresses, city: str, faults: Faults) -> list[pd.DataFrame]:
    """Return the stops of each route of ``table`` in their order: route, number, customer and node, by row.

    Stops at the depot are skipped. Wrong rows are added to ``faults``. ``city`` is the name of the city.
    Raises McvrpError if columns are missing, or there are several days.
    """
    columns = [table.column(field) or "" for field in _COLUMNS]
    if "" in columns:
        missing, titles = _COLUMNS[columns.index("")], listed(table.titles.values(), most=8)
        raise McvrpError(
            f"{table.name} has no column {missing} (columns: {titles}): add route, stop and customer, or "
            "name them in --columns"
        )
    date = table.column("date")
    if date and len(days := dict.fromkeys(table.text(date).tolist())) > 1:
        raise McvrpError(f"{table.name} has routes of {len(days):,} days ({listed(days)}): keep one of them")
    route, stop, customer = columns
    names = table.ids(customer)
    content = {"route": table.ids(route), "number": table.numbers(stop, faults), "customer": names}
    stops = pd.DataFrame(content | {"node": addresses.nodes(names.tolist())}, index=table.rows)
    for row in stops.index[stops["number"].mod(1) > 0]:
        faults.at(row, f"{table.titles[stop]} is {stops['number'][row]:g}, not a whole number")
    for row in stops.index[stops["route"] == ""]:
        faults.at(row, "route is missing")
    back = stops["route"].map(stops[stops["node"] == DEPOT].groupby("route")["number"].max())
    for row in stops.index[(back > 0) & (stops["number"] > back)]:
        route_name = f"of route {shown(stops['route'][row])} is after its return, stop {back[row]:g}"
        faults.at(row, f"stop {stops['number'][row]:g} {route_name}")
    stops = stops[stops["node"] != DEPOT]
    for row, first in _repeated(stops.dropna(), "route", "number"):
        number = f"{stops['number'][row]:g}, in row {first}"
        faults.at(row, f"route {shown(stops['route'][row])} already has stop {number}")
    for row in stops.index[stops["node"] == UNKNOWN]:
        faults.at(row, f"{shown(stops['customer'][row])} is not a customer of city {city!r}")
    for row, first in _repeated(stops[stops["node"] != UNKNOWN], "node"):
        faults.at(row, f"customer {shown(stops['customer'][row])} is already on a route, in row {first}")
    by_route = stops.groupby("route", sort=False)
    return [route.sort_values("number", kind="stable") for _, route in by_route]


def _repeated(stops: pd.DataFrame, *columns: str) -> Iterator[tuple[int, int]]:
    """Yield the rows of ``stops`` whose ``columns`` an earlier row has, each with the first such row."""
    rows = stops.index.to_series()
    firsts = rows.groupby([stops[column] for column in columns]).transform("first")
    yield from ((row, firsts[row]) for row in rows[rows != firsts])


def fitted_routes(city: City, instance: Instance, earlier: Iterable[Iterable[int]]) -> Solution:
    """Return ``earlier`` routes adapted to ``instance``: other customers are removed, new ones inserted.

    A route that exceeds the capacity is split where the vehicle is full. New customers, largest demand first,
    are inserted at the cheapest feasible position, or get their own route if that is cheaper.
    """
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes, loads = list[list[int]](), list[int]()
    for route in earlier:
        load = instance.capacity  # full, so that the first customer opens a route
        for node in route:
            if node not in demand:
                continue
            if load + demand[node] > instance.capacity:
                routes.append([])
                loads.append(0)
                load = 0
            load += demand[node]
            routes[-1].append(node)
            loads[-1] = load
    served = {node for route in routes for node in route}
    for node in sorted(demand.keys() - served, key=lambda node: (-demand[node], node)):
        options = [
            (*_cheapest_insertion(city, routes[k], node), k)
            for k in range(len(routes))
            if loads[k] + demand[node] <= instance.capacity
        ]
        alone = float(city.legs(np.array([DEPOT, node, DEPOT])).sum())
        added, position, k = min(options, default=(np.inf, 0, 0))
        if added > alone:
            routes.append([node])
            loads.append(demand[node])
        else:
            routes[k].insert(position, node)
            loads[k] += demand[node]
    return Solution.of(routes)


def _cheapest_insertion(city: City, route: list[int], node: int) -> tuple[float, int]:
    path = np.array([DEPOT, *route, DEPOT])
    detours = np.full(2 * len(path) - 1, node)  # from each stop to the node and on to the next stop
    detours[::2] = path
    legs = city.legs(detours)
    added = legs[::2] + legs[1::2] - city.legs(path)
    position = int(added.argmin())
    return float(added[position]), position
