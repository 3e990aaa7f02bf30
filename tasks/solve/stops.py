"""Stops of the routes of a day, and what their files carry from the addresses and the orders."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcvrp.model.problem import DEPOT, City
from mcvrp.tasks.files.cells import Number
from mcvrp.tasks.files.tabular import column_key
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solvers.solver import route_lengths
from mcvrp.tasks.support.text import METRES, is_seconds, length_text, time_text

TIMES = "arrival_minutes", "arrival", "departure"  # columns that a day may lack
# Columns of routes.csv and unserved.csv, and names by which customers are read.
OWN = (
    *("date", "route", "stop", "customer", "demand", "capacity", "load_after", "leg_cost", "cumulative_cost"),
    *("lat", "lon", "x", "y", "id", "customer_id", "kept", "reason", *TIMES),
)
SERVICE = "service_seconds"  # column with the duration of a stop
_DECIMALS = 6  # of a cost that is neither a length nor a time, which have two
_PRINTED = 8  # columns of addresses and orders on a sheet of A4


@dataclass(frozen=True)
class Stop:
    """Row of routes.csv: position of a vehicle, its load, and the cost of getting there.

    With costs in seconds also the minutes since the depot, service included; with a start time the times of
    day, without an arrival at the depot before the route and a departure after it. ``route`` is its name, a
    number if it looks like one; one that is ``kept`` was decided before.
    """

    route: int | str
    stop: int
    node: int
    customer: str
    demand: int
    load_after: int
    leg_cost: float
    cumulative_cost: float
    arrival_minutes: float | None = None
    arrival: str | None = None
    departure: str | None = None
    kept: bool = False

    @property
    def of_route(self) -> str:
        """Name of the route for people: "3", "north (kept)"."""
        return f"{self.route} (kept)" if self.kept else str(self.route)


def stops_of(solved: Solved) -> list[list[Stop]]:
    """Return the stops of each route: the depot, the customers in order, the depot again."""
    city, instance, ids = solved.planned.city, solved.instance, solved.planned.addresses.ids
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes, decided, start = [], len(solved.planned.decided.routes), solved.planned.spec.start_time
    starts = solved.planned.kept.starts if solved.planned.kept else ()
    for number, (name, route) in enumerate(zip(solved.names, solved.solution.routes, strict=True)):
        label = int(name) if name.isdecimal() and str(int(name)) == name else name
        path = [DEPOT, *route, DEPOT]
        legs = [0.0, *city.legs(np.array(path)).tolist()]
        demands = [demand.get(node, 0) for node in path]
        loads, costs = np.cumsum(demands).tolist(), np.cumsum(legs).tolist()
        decimals = 2 if is_seconds(city.unit) or city.unit in METRES else _DECIMALS
        legs, costs = ([round(leg, decimals) for leg in column] for column in (legs, costs))
        stops = zip(path, [ids[node] for node in path], demands, loads, legs, costs, strict=True)
        rows = [replace(Stop(label, k, *stop), kept=number < decided) for k, stop in enumerate(stops)]
        left = starts[number] if start and number < len(starts) and starts[number] else start
        routes.append(_with_times(rows, solved, left) if is_seconds(city.unit) else rows)
    return routes


def _with_times(stops: Sequence[Stop], solved: Solved, start: str | None) -> list[Stop]:
    service = solved.planned.day.wishes.service
    seconds, timed = 0.0, list[Stop]()
    for k, stop in enumerate(stops):
        arrival = seconds + stop.cumulative_cost
        seconds += service.get(stop.node, 0.0)
        stop = replace(stop, arrival_minutes=round(arrival / 60, 2))
        if start is not None:
            came = None if k == 0 else _clock(start, arrival)
            left = None if k == len(stops) - 1 else _clock(start, seconds + stop.cumulative_cost)
            stop = replace(stop, arrival=came, departure=left)
        timed.append(stop)
    return timed


def _clock(start: str, seconds: float) -> str:
    """Return the time of day ``seconds`` after ``start``, to the minute: "09:05", the next day "00:10 +1"."""
    hours, minutes = map(int, start.split(":"))
    hours, minutes = divmod(60 * hours + minutes + round(seconds / 60), 60)
    days, hours = divmod(hours, 24)
    return f"{hours:02d}:{minutes:02d}{f' +{days}' if days else ''}"


def day_text(date: datetime.date | None) -> str:
    """Return the date of a day for people: "Monday 2026-11-30", empty without one."""
    return f"{date:%A} {date}" if date else ""


def shift_texts(solved: Solved) -> list[str]:
    """Return the duration of each route with its stops, empty if service times do not count."""
    planned = solved.planned
    if not planned.spec.timed:
        return []
    lengths = route_lengths(planned.city, solved.solution, planned.day.wishes.service)
    return [length_text(length, planned.city.unit) for length in lengths]


def measure(city: City) -> str:
    """Return what the costs of ``city`` are: straight-line distances, or those of a matrix."""
    if city.matrix is None:
        return "straight-line distance"
    return "travel time" if is_seconds(city.unit) else "distance" if city.unit in METRES else "cost"


def further_columns(solved: Solved) -> dict[str, dict[int, str]]:
    """Return the further columns of addresses and orders: texts by node, by name of the column.

    Those of the depot and of all who have ordered, so that routes.csv and unserved.csv have the same.

    If service times count, the first one is `service_seconds`: those of all orders of a customer.

    A column with a name of `OWN`, or of city or day for one of them, or that both files have with different
    texts, is named after its file: address_route, order_name.
    """
    planned, nodes = solved.planned, (DEPOT, *solved.planned.day.demands)
    decimal = planned.day.dialect.decimal
    of_addresses = {
        title: {node: texts[node] for node in nodes if texts[node]}
        for title, texts in planned.addresses.further.items()
    }
    names = planned.addresses.columns, planned.spec.columns  # a file of routes is read by either
    of_routes = [name for columns in names for field, name in columns.items() if field in OWN]
    taken = {column_key(name): dict[int, str]() for name in (*OWN, *of_routes)}
    columns: dict[str, dict[int, str]] = {}
    if planned.spec.timed:
        service = {node: f"{seconds:.10g}" for node, seconds in planned.day.wishes.service.items()}
        columns[SERVICE] = taken[SERVICE] = service
    for file, table in (("address", of_addresses), ("order", planned.day.further)):
        for title, texts in table.items():
            name, same = title, taken.get(column_key(title), {})
            if all(same.get(node) == text for node, text in texts.items()):  # nothing, or nothing new
                continue
            while column_key(name) in taken:
                name = f"{file}_{name}"
            columns[name] = {node: Number.read(text, decimal) for node, text in texts.items()}
            taken[column_key(name)] = columns[name]
    return columns


def printed_columns(solved: Solved) -> dict[str, dict[int, str]]:
    """Return the first of the further columns, as a sheet or a list has room for and as people read them.

    Those of the addresses are the first, a service time is the last, unless it is that of all stops.
    """
    further = dict(list(further_columns(solved).items())[:_PRINTED])
    seconds = further.pop(SERVICE, {})
    if len(set(seconds.values())) > 1:
        further["Service time"] = {node: time_text(float(text)) for node, text in seconds.items()}
    return further


def at_stop(columns: Mapping[str, Mapping[int, str]], stop: Stop) -> dict[str, str]:
    """Return the texts of ``columns`` at ``stop`` that are not empty."""
    return {name: texts[stop.node] for name, texts in columns.items() if stop.node in texts}


def shortened(text: str, most: int) -> str:
    """Return ``text`` in at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
