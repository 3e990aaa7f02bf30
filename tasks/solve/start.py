"""Start of a day's search: earlier routes, adapted to the orders of the day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City, Instance, Solution, cost
from mcvrp.storage.cities import UNKNOWN, Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.support.text import length_text, listed

_COLUMNS = ("route", "stop", "customer")


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
    earlier = [[stop.node for stop in route] for route in stops]
    solution = fitted_routes(city, instance, earlier)
    kept = len({node for route in earlier for node in route} & set(instance.ids.tolist()))
    price = length_text(cost(city, solution), city.unit)
    note = f"{table.name} has {kept:,} of {instance.n:,} customers; with the others its routes cost {price}"
    return Start(solution, note)


@dataclass(frozen=True)
class EarlierStop:
    """Stop of a file of routes: a customer, and its place in the table."""

    number: float
    node: int
    position: int  # of its row in the table, from 0
    route: str


def read_routes(table: Tabular, addresses: Addresses, city: str, faults: Faults) -> list[list[EarlierStop]]:
    """Return the stops of each route of ``table`` in their order; wrong rows are added to ``faults``.

    ``city`` is the name of the city. Raises McvrpError if columns are missing, or there are several days.
    """
    columns = [table.column(field) or "" for field in _COLUMNS]
    if "" in columns:
        missing, titles = _COLUMNS[columns.index("")], listed(table.frame.columns, most=8)
        raise McvrpError(
            f"{table.name} has no column {missing} (columns: {titles}): add route, stop and customer, or "
            "name them in --columns"
        )
    date = table.column("date")
    if date and len(days := dict.fromkeys(table.text(date).tolist())) > 1:
        raise McvrpError(f"{table.name} has routes of {len(days):,} days ({listed(days)}): keep one of them")
    route_column, stop_column, customer_column = columns
    stops, names = table.numbers(stop_column, faults).tolist(), table.ids(customer_column).tolist()
    first_rows: dict[object, int] = {}  # by customer, and by route and stop
    routes: dict[str, list[EarlierStop]] = {}
    for position, (row, route, stop, name, node) in enumerate(
        zip(
            table.rows.tolist(),
            table.ids(route_column).tolist(),
            stops,
            names,
            addresses.nodes(names).tolist(),
            strict=True,
        )
    ):
        if not route:
            faults.at(row, "route is missing")
        if node == DEPOT:
            continue
        if (first := first_rows.setdefault((route, stop), row)) != row:
            faults.at(row, f"route {shown(route)} already has stop {stop:g}, in row {first}")
        if node == UNKNOWN:
            faults.at(row, f"{shown(name)} is not a customer of city {city!r}")
        elif (first := first_rows.setdefault(node, row)) != row:
            faults.at(row, f"customer {shown(name)} is already on a route, in row {first}")
        routes.setdefault(route, []).append(EarlierStop(stop, node, position, route))
    return [sorted(route, key=lambda stop: stop.number) for route in routes.values()]


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
