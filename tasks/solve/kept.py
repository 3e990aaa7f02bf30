"""Routes of a day that are decided: they are taken out of the day, and the rest is planned beside them."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from dataclasses import dataclass, replace

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.solve.orders import MOST, rows_of
from mcvrp.tasks.solve.start import fitted_routes, read_routes
from mcvrp.tasks.solvers.pyvrp import only
from mcvrp.tasks.solvers.solver import Limits

_KEPT = "kept"
_YES, _NO = ("1", "true", "yes", "x"), ("", "0", "false", "no")

Route = tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """Routes of a file for a day, in the city's node numbers: decided ones, and the others."""

    name: str  # of the file
    routes: tuple[Route, ...]
    others: tuple[Route, ...] = ()


@dataclass(frozen=True)
class Rest:
    """Part of a day that is still to be planned, beside the routes that are ``kept``.

    ``start`` serves ``instance``, perhaps beyond the limits.
    """

    city: City
    addresses: Addresses
    instance: Instance | None  # None if everything is decided
    limits: Limits
    kept: tuple[Route, ...] = ()
    start: Solution | None = None

    def served(self, solution: Solution) -> Solution:
        """Return ``solution`` without customers who are not in ``instance``."""
        assert self.instance is not None
        nodes = set(self.instance.ids.tolist())
        return Solution.of([node for node in route if node in nodes] for route in solution.routes)

    def without(self, left_out: Collection[int], start: Solution) -> Rest:
        """Return the rest without the customers who are ``left_out``; ``start`` serves it."""
        assert self.instance is not None
        served = set(self.instance.ids.tolist()) - set(left_out)
        return replace(self, instance=only(self.instance, served), start=start)

    def day(self, solution: Solution) -> Solution:
        """Return the routes of the day: those that are kept, then those of ``solution``."""
        return Solution((*self.kept, *solution.routes))


def read_kept(
    store: Store,
    place: str,
    addresses: Addresses,
    instance: Instance,
    date: datetime.date | None = None,
    name: str = "city",
) -> Kept:
    """Return the decided routes in the file ``place``, like ``routes.csv`` of a day, of the city ``name``.

    With a column ``kept``, only routes whose stops are all marked are decided.
    ``date`` is that of `rows_of`.

    Raises McvrpError if columns are missing, nothing is kept, or rows have faults, which are all listed.
    """
    table = rows_of(read_tabular(*file_bytes(store, place)).calling(addresses.columns), date, addresses.dates)
    faults = Faults(table.name)
    routes, marks = read_routes(table, addresses, name, faults), _marks(table, faults)
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    kept, others, most = list[Route](), list[Route](), min(instance.capacity, MOST)
    for route in routes:
        nodes, marked = tuple(stop.node for stop in route), [marks[stop.position] for stop in route]
        if not any(marked):
            others.append(nodes)
            continue
        kept.append(nodes)
        for stop, mark in zip(route, marked, strict=True):
            row = int(table.rows[stop.position])
            if not mark:
                where = f"stop {stop.number:g} of route {shown(stop.route)}"
                faults.at(row, f"{where} is not kept, unlike others of it: mark all of its stops, or none")
            if stop.node not in demand:
                faults.at(row, f"the kept stop at {shown(addresses.ids[stop.node])} has no order: add it")
        if (load := sum(demand.get(node, 0) for node in nodes)) > most:
            faults.add(f"route {shown(route[0].route)} has a demand of {load:,}, more than {most:,}")
    faults.check()
    if not kept:
        raise McvrpError(f"{table.name} keeps no route: mark stops in its column {_KEPT}, or omit --keep")
    return Kept(table.name, tuple(kept), tuple(others))


def _marks(table: Tabular, faults: Faults) -> list[bool]:
    """Return whether each row is marked as kept; all are without a column."""
    if (column := table.column(_KEPT)) is None:
        return [True] * len(table)
    cells = [cell.casefold() for cell in table.text(column)]
    for row, cell in zip(table.rows.tolist(), cells, strict=True):
        if cell not in _YES + _NO:
            faults.at(row, f"{_KEPT} is {shown(cell)}, not yes or no")
    return [cell in _YES for cell in cells]


def rest_of(
    kept: Kept | None,
    city: City,
    addresses: Addresses,
    instance: Instance,
    limits: Limits,
    *,
    drop: bool = False,
) -> Rest:
    """Return what is left to plan of ``instance`` beside the routes that are ``kept``.

    Raises McvrpError if more routes are kept than the fleet has vehicles, or customers who may not be left
    out (``drop``) remain without any.
    """
    if kept is None:
        return Rest(city, addresses, instance, limits)
    decided = {node for route in kept.routes for node in route}
    free = only(instance, set(instance.ids.tolist()) - decided)
    if limits.fleet is not None:
        count = len(kept.routes)
        if limits.fleet < count or (free and not drop and limits.fleet == count):
            remain = f" of {limits.fleet:,} vehicles, and {free.n if free else 0:,} customers remain"
            raise McvrpError(
                f"{kept.name} keeps {count:,} routes{remain}: increase --fleet, or keep fewer routes"
            )
        limits = replace(limits, fleet=limits.fleet - count)
    start = fitted_routes(city, free, kept.others) if free and kept.others else None
    return Rest(city, addresses, free, limits, kept.routes, start)
