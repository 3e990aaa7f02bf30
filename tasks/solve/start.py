"""Start of a day's search: earlier routes, fitted to the orders of today."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import DEPOT, City, Instance, Solution, cost
from mcvrp.storage.cities import UNKNOWN, Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.file_bytes import file_bytes
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.support.text import length_text, listed

_COLUMNS = ("route", "stop", "customer")


@dataclass(frozen=True)
class Start:
    """Routes that serve a day, made of those of another day, and what there is to say about it."""

    solution: Solution
    note: str


def read_start(store: Store, place: str, city: City, addresses: Addresses, instance: Instance) -> Start:
    """Return the routes in the file ``place`` as a start for ``instance``.

    Parameters
    ----------
    place
        A table with the columns route, stop and customer, as ``routes.csv`` of a day has it: here, or in
        the store ("store:PATH"). Stops at the depot are passed over.

    Raises
    ------
    McvrpError
        If columns are missing, there are several days, or rows have faults: all of them at once.
    """
    table = read_tabular(*file_bytes(store, place))
    if absent := [column for column in _COLUMNS if column not in table.frame]:
        there = listed(table.frame.columns, most=8)
        raise McvrpError(
            f"{table.name} has no column {absent[0]}, routes have route, stop, customer ({there}): add it"
        )
    if "date" in table.frame and len(days := dict.fromkeys(table.text("date").tolist())) > 1:
        raise McvrpError(f"{table.name} has routes of {len(days):,} days ({listed(days)}): keep one of them")
    faults = Faults(table.name)
    stops = table.numbers("stop", faults)
    names = table.text("customer").tolist()
    nodes, seen = addresses.nodes(names).tolist(), dict[int, int]()
    lines = table.text("route").tolist()
    taken: dict[tuple[str, float], int] = {}  # the row of each stop
    for row, route, stop, name, node in zip(
        table.rows.tolist(), lines, stops.tolist(), names, nodes, strict=True
    ):
        if not route:
            faults.at(row, "route is missing")
        if node != DEPOT and (first := taken.setdefault((route, stop), row)) != row:
            faults.at(row, f"route {shown(route)} has stop {stop:g} already, in row {first}")
        if node == UNKNOWN:
            faults.at(row, f"{shown(name)} is no customer of the city")
        elif node in seen:
            faults.at(row, f"customer {shown(name)} is on a route already, in row {seen[node]}")
        elif node != DEPOT:
            seen[node] = row
    faults.check()
    routes: dict[str, list[tuple[float, int]]] = {}
    for route, stop, node in zip(lines, stops.tolist(), nodes, strict=True):
        if node != DEPOT:
            routes.setdefault(route, []).append((stop, node))
    earlier = [[node for _, node in sorted(route, key=lambda stop: stop[0])] for route in routes.values()]
    solution = fitted_routes(city, instance, earlier)
    kept = len(seen.keys() & set(instance.ids.tolist()))
    price = length_text(cost(city, solution), city.unit)
    note = f"{table.name} has {kept:,} of {instance.n:,} customers; with the others its routes cost {price}"
    return Start(solution, note)


def fitted_routes(city: City, instance: Instance, earlier: Iterable[Iterable[int]]) -> Solution:
    """Return ``earlier`` routes for ``instance``: who orders nothing is left out, who is new is inserted.

    A route that has become too much is cut where the vehicle is full. New customers, the largest demand
    first, go to the cheapest place where they fit, else on a route of their own.
    """
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes, loads = list[list[int]](), list[int]()
    for route in earlier:
        load = instance.capacity  # as if full: the first customer begins a route
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
            (*_cheapest_place(city, routes[k], node), k)
            for k in range(len(routes))
            if loads[k] + demand[node] <= instance.capacity
        ]
        alone = float(city.legs(np.array([DEPOT, node, DEPOT])).sum())
        price, place, k = min(options, default=(np.inf, 0, 0))
        if price > alone:
            routes.append([node])
            loads.append(demand[node])
        else:
            routes[k].insert(place, node)
            loads[k] += demand[node]
    return Solution.of(routes)


def _cheapest_place(city: City, route: list[int], node: int) -> tuple[float, int]:
    """Return what inserting ``node`` adds at the cheapest place of ``route``, and the place."""
    path = np.array([DEPOT, *route, DEPOT])
    detours = np.full(2 * len(path) - 1, node)  # there and back, from each stop to the next
    detours[::2] = path
    ways = city.legs(detours)
    added = ways[::2] + ways[1::2] - city.legs(path)
    place = int(added.argmin())
    return float(added[place]), place
