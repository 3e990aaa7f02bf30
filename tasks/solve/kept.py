"""Routes of a day that are decided: whole ones, and the first stops of vehicles that have left.

Whole routes are taken out of the day. The first stops of another one become a single customer, at which
vehicles arrive from the depot only, in a city of the remaining customers with a cost matrix.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from mcvrp.model.city import MOST_COST
from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import COST_TOLERANCE, DEPOT, City, Instance, Solution
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.file_bytes import Faults, file_bytes
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.solve.limits import too_far
from mcvrp.tasks.solve.orders import MOST, rows_of
from mcvrp.tasks.solve.spec import AUTO, SolveSpec
from mcvrp.tasks.solve.start import EarlierStop, fitted_routes, read_routes
from mcvrp.tasks.solvers.pyvrp import NO_ROUTES, only
from mcvrp.tasks.solvers.solver import Limits, route_lengths

_KEPT = "kept"
_LONGEST = MOST_COST / 2  # route of a day without a limit: less than a leg without a road
_YES, _NO = ("1", "true", "yes", "x"), ("", "0", "false", "no")

Route = tuple[int, ...]


@dataclass(frozen=True)
class Begun:
    """Route of a vehicle that has left: its decided ``stops``, and those that were planned after them."""

    stops: Route
    others: Route


@dataclass(frozen=True)
class Kept:
    """Decided routes of a day, in the city's node numbers."""

    name: str  # of the file
    whole: tuple[Route, ...]
    begun: tuple[Begun, ...]
    free: tuple[Route, ...]  # that are not kept


@dataclass(frozen=True)
class Rest:
    """Part of a day that is still to be planned.

    ``parts`` are the customers of the day that each customer of ``instance`` represents, by its node; None if
    the city is that of the day. ``start`` serves ``instance``, perhaps beyond the limits.
    """

    city: City
    addresses: Addresses
    instance: Instance | None  # None if everything is decided
    limits: Limits
    whole: tuple[Route, ...] = ()
    parts: tuple[Route, ...] | None = None
    begun: Solution = NO_ROUTES  # a route for each vehicle that has left
    start: Solution | None = None

    def node(self, customer: int) -> int:
        """Return the node of the day that a customer of ``instance`` represents, the last one of several."""
        return customer if self.parts is None else self.parts[customer][-1]

    def free(self, instance: Instance) -> Instance | None:
        """Return the orders of ``instance``, those of the day, that are not kept; None without any."""
        begun = () if self.parts is None else [self.parts[k] for route in self.begun.routes for k in route]
        return only(
            instance, set(instance.ids.tolist()) - {node for part in (*self.whole, *begun) for node in part}
        )

    def contracted(self, solution: Solution) -> Solution:
        """Return routes of the `free` customers as routes of the rest, beside those that have begun."""
        assert self.instance is not None
        customer = {self.node(k): k for k in self.instance.ids.tolist()}
        routes = [[customer[node] for node in route if node in customer] for route in solution.routes]
        return Solution.of([*self.begun.routes, *routes])

    def without(self, left_out: Collection[int], start: Solution) -> Rest:
        """Return the rest without the customers of the day who are ``left_out``; ``start`` serves it."""
        assert self.instance is not None
        served = {node for node in self.instance.ids.tolist() if self.node(node) not in left_out}
        return replace(self, instance=only(self.instance, served), start=start)

    def day(self, solution: Solution) -> Solution:
        """Return the routes of the day: those that are kept whole, those that have begun, the others."""
        routes = solution.routes
        if self.parts is not None:
            begun = self.begun.routes  # their nodes ascend in the order of the file
            ordered = sorted(routes, key=lambda route: route[0] if route[:1] in begun else math.inf)
            routes = tuple(tuple(node for k in route for node in self.parts[k]) for route in ordered)
        return Solution((*self.whole, *routes))


def read_kept(
    store: Store,
    place: str,
    addresses: Addresses,
    instance: Instance,
    date: datetime.date | None = None,
    name: str = "city",
) -> Kept:
    """Return the decided routes in the file ``place``, like ``routes.csv`` of a day, of the city ``name``.

    With a column ``kept``, only the marked stops are decided: all stops of a route, or its first ones.
    ``date`` is that of `rows_of`.

    Raises McvrpError if columns are missing, nothing is kept, or rows have faults, which are all listed.
    """
    table = rows_of(read_tabular(*file_bytes(store, place)).calling(addresses.columns), date, addresses.dates)
    faults = Faults(table.name)
    routes, marks = read_routes(table, addresses, name, faults), _marks(table, faults)
    whole, begun, free, most = list[Route](), list[Begun](), list[Route](), min(instance.capacity, MOST)
    for route in routes:
        count = _decided(table, route, marks, faults)
        nodes = tuple(stop.node for stop in route)
        for stop in route[:count]:
            if stop.node not in instance.ids:
                name = shown(addresses.ids[stop.node])
                faults.at(int(table.rows[stop.position]), f"the kept stop at {name} has no order: add it")
        if (load := _demand(instance, nodes[:count])) > most:
            stops = f"the kept stops of route {shown(route[0].route)}"
            faults.add(f"{stops} have a demand of {load:,}, more than {most:,}")
        if count == len(route):
            whole.append(nodes)
        elif count:
            begun.append(Begun(nodes[:count], nodes[count:]))
        else:
            free.append(nodes)
    faults.check()
    if not whole and not begun:
        raise McvrpError(f"{table.name} keeps no stop: mark stops in its column {_KEPT}, or omit --keep")
    return Kept(table.name, tuple(whole), tuple(begun), tuple(free))


def _marks(table: Tabular, faults: Faults) -> list[bool]:
    """Return whether each row is marked as kept; all are without a column."""
    if (column := table.column(_KEPT)) is None:
        return [True] * len(table)
    cells = [cell.casefold() for cell in table.text(column)]
    for row, cell in zip(table.rows.tolist(), cells, strict=True):
        if cell not in _YES + _NO:
            faults.at(row, f"{_KEPT} is {shown(cell)}, not yes or no")
    return [cell in _YES for cell in cells]


def _decided(table: Tabular, route: list[EarlierStop], marks: list[bool], faults: Faults) -> int:
    kept = [marks[stop.position] for stop in route]
    count = kept.index(False) if False in kept else len(kept)
    if True in kept[count:]:
        stop = route[count + kept[count:].index(True)]
        where = f"stop {stop.number:g} of route {shown(stop.route)}"
        faults.at(int(table.rows[stop.position]), f"{where} is kept, and not all before it: mark them, too")
    return count


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

    A vehicle that could not return within the longest route after its kept stops gets no more of them, nor
    does one whose kept stops include a leg without a road.

    Raises McvrpError if more routes are kept than the fleet has vehicles, customers who may not be left out
    (``drop``) remain without any, or no road connects one with the depot.
    """
    if kept is None:
        return Rest(city, addresses, instance, limits)
    late = {route.stops for route in kept.begun if _late(route.stops, city, limits)}
    whole = (*kept.whole, *(route.stops for route in kept.begun if route.stops in late))
    begun = [route for route in kept.begun if route.stops not in late]
    others = [route.others for route in kept.begun if route.stops in late] + list(kept.free)
    decided = {node for route in (*whole, *(route.stops for route in begun)) for node in route}
    free = only(instance, set(instance.ids.tolist()) - decided)
    if limits.fleet is not None:
        count = len(whole) + len(begun)
        if limits.fleet < count or (free and not drop and limits.fleet == len(whole)):
            remain = f" of {limits.fleet:,} vehicles, and {free.n if free else 0:,} customers remain"
            raise McvrpError(
                f"{kept.name} keeps {count:,} routes{remain}: increase --fleet, or keep fewer routes"
            )
        limits = replace(limits, fleet=limits.fleet - len(whole))
    if free is None:
        return Rest(city, addresses, None, limits, (*whole, *(route.stops for route in begun)))
    if begun:
        return _collapsed(Rest(city, addresses, instance, limits, whole), free, begun, others)
    start = fitted_routes(city, free, others) if others else None
    return Rest(city, addresses, free, limits, whole, start=start)


def require_continued(rest: Rest, spec: SolveSpec) -> None:
    """Raise McvrpError if routes have begun and who searches cannot continue them."""
    if rest.parts is not None and spec.by not in (AUTO, "pyvrp"):
        raise McvrpError(f"--by {spec.by} does not continue routes that have begun: use --by auto or pyvrp")


def _late(route: Route, city: City, limits: Limits) -> bool:
    if limits.longest_route is None:
        return bool(city.legs(np.array([DEPOT, *route])).sum() > _LONGEST)
    (length,) = route_lengths(city, Solution((route,)), limits.service)
    return bool(length > limits.longest_route * (1 + COST_TOLERANCE))


def _collapsed(day: Rest, free: Instance, begun: list[Begun], others: list[Route]) -> Rest:
    """Return the rest of a day in a city of the depot, the ``free`` customers and the ``begun`` routes."""
    assert day.instance is not None
    parts = ((DEPOT,), *((node,) for node in free.ids.tolist()), *(route.stops for route in begun))
    first, last = np.array([part[0] for part in parts]), np.array([part[-1] for part in parts])
    size, assigned = len(parts), range(free.n + 1, len(parts))
    costs = day.city.costs(np.concatenate([last, first]))[:size, size:]  # from the last of a part to a first
    costs = costs + [float(day.city.legs(np.array(part)).sum()) for part in parts]
    costs[1:, free.n + 1 :] = MOST_COST  # a vehicle that has left comes from the depot
    np.fill_diagonal(costs, 0)
    demands = np.array([_demand(day.instance, part) for part in parts[1:]], dtype=np.uint16)
    limits = replace(day.limits, longest_route=day.limits.longest_route or _LONGEST)
    if (service := limits.service) is not None:
        total = {k: sum(service.get(node, 0.0) for node in part) for k, part in enumerate(parts) if k}
        limits = replace(limits, service=total)
    city = City.framed(day.city.xy[last], costs, unit=day.city.unit)
    instance = Instance(city.city_id, np.arange(1, size, dtype=np.uint32), demands, free.capacity)
    node_of = {part[0]: k for k, part in enumerate(parts[: free.n + 1])}
    heads = [[k] for k in assigned] + [list[int]() for _ in others]
    routes = [
        [*head, *(node_of[node] for node in tail if node in node_of)]
        for head, tail in zip(heads, [*(route.others for route in begun), *others], strict=True)
    ]
    addresses = Addresses(tuple(day.addresses.names(last.tolist())))
    if day.limits.longest_route is None and (far := too_far(limits, city, instance)).any():
        name = shown(addresses.ids[1 + int(far.argmax())])
        raise McvrpError(
            f"{name} has no road from or to the depot (costs of {MOST_COST:g}), so no route to it can be "
            "planned beside those that have begun: omit its order, or correct the cost matrix of the city"
        )
    return Rest(
        city,
        addresses,
        instance,
        limits,
        day.whole,
        parts,
        Solution(tuple((k,) for k in assigned)),
        fitted_routes(city, instance, routes),
    )


def _demand(instance: Instance, nodes: Iterable[int]) -> int:
    return int(instance.demands[np.isin(instance.ids, list(nodes))].sum(dtype=np.int64))
