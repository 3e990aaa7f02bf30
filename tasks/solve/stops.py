"""Stops of the routes of a day, and what their files carry from the addresses and the orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mcvrp.model.problem import DEPOT, City
from mcvrp.tasks.files.tabular import column_key
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solvers.solver import route_lengths
from mcvrp.tasks.support.text import length_text

_DECIMALS = 6  # of a cost
# Columns of routes.csv, properties of routes.geojson, and names by which customers are read.
_OWN = (
    *("date", "route", "stop", "customer", "demand", "capacity", "load_after", "leg_cost", "cumulative_cost"),
    *("lat", "lon", "x", "y", "id", "customer_id", "kept"),
    *("kind", "customers", "load", "utilisation", "cost", "stroke", "stroke-width", "marker-color"),
    *("minutes", "kilometres", "legs"),
)


@dataclass(frozen=True)
class Stop:
    """Row of routes.csv: position of a vehicle, its load, and the cost of getting there."""

    route: int
    stop: int
    node: int
    customer: str
    demand: int
    load_after: int
    leg_cost: float
    cumulative_cost: float


def count_text(stops: int) -> str:
    """Return "1 stop", "2 stops"."""
    return f"{stops:,} stop{'' if stops == 1 else 's'}"


def stops_of(solved: Solved) -> list[list[Stop]]:
    """Return the stops of each route: the depot, the customers in order, the depot again."""
    city, instance, ids = solved.planned.city, solved.instance, solved.planned.addresses.ids
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = []
    for number, route in enumerate(solved.solution.routes, start=1):
        path = [DEPOT, *route, DEPOT]
        legs = [0.0, *city.legs(np.array(path)).tolist()]
        demands = [demand.get(node, 0) for node in path]
        loads, costs = np.cumsum(demands).tolist(), np.cumsum(legs).tolist()
        legs, costs = ([round(leg, _DECIMALS) for leg in column] for column in (legs, costs))
        stops = zip(path, [ids[node] for node in path], demands, loads, legs, costs, strict=True)
        routes.append([Stop(number, k, *stop) for k, stop in enumerate(stops)])
    return routes


def shift_texts(solved: Solved) -> list[str]:
    """Return the duration of each route with its stops, empty without a shift."""
    planned = solved.planned
    if planned.spec.shift is None:
        return []
    lengths = route_lengths(planned.city, solved.solution, planned.day.wishes.service)
    return [length_text(length, planned.city.unit) for length in lengths]


def measure(city: City) -> str:
    """Return what the costs of ``city`` are: straight-line distances, or those of a matrix."""
    return "straight-line distance" if city.matrix is None else "cost"


def further_columns(solved: Solved) -> dict[str, dict[int, str]]:
    """Return the further columns of addresses and orders: texts by node, by name of the column.

    With a shift the first one is `service`: seconds of all orders of a customer.

    A column with a name of `_OWN`, or of city or day for one of them, or that both files have with different
    texts, is named after its file: address_route, order_name.
    """
    planned, nodes = solved.planned, (DEPOT, *solved.instance.ids.tolist())
    of_addresses = {
        title: {node: texts[node] for node in nodes if texts[node]}
        for title, texts in planned.addresses.further.items()
    }
    names = planned.addresses.columns, planned.spec.columns  # a file of routes is read by either
    of_routes = [name for columns in names for field, name in columns.items() if field in _OWN]
    taken = {column_key(name): dict[int, str]() for name in (*_OWN, *of_routes)}
    columns: dict[str, dict[int, str]] = {}
    if planned.spec.shift is not None:
        service = {node: f"{seconds:.10g}" for node, seconds in planned.day.wishes.service.items()}
        columns["service"] = taken["service"] = service
    for file, table in (("address", of_addresses), ("order", planned.day.further)):
        for title, texts in table.items():
            name, same = title, taken.get(column_key(title), {})
            if all(same.get(node) == text for node, text in texts.items()):  # nothing, or nothing new
                continue
            while column_key(name) in taken:
                name = f"{file}_{name}"
            columns[name] = taken[column_key(name)] = dict(texts)
    return columns


def at_stop(columns: Mapping[str, Mapping[int, str]], stop: Stop) -> dict[str, str]:
    """Return the texts of ``columns`` at ``stop`` that are not empty."""
    return {name: texts[stop.node] for name, texts in columns.items() if stop.node in texts}


def shortened(text: str, most: int) -> str:
    """Return ``text`` in at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
