"""Customers for whom a day's limits leave no room: as few as possible, those of the lowest priority first."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import Solution
from mcvrp.storage.cities import Addresses
from mcvrp.tasks.solve.kept import Rest
from mcvrp.tasks.solve.limits import fewest_left_out, round_trips, too_far
from mcvrp.tasks.solve.orders import SPLIT, Day
from mcvrp.tasks.solvers.pyvrp import NO_ROUTES, only, serve_most
from mcvrp.tasks.solvers.searches import fewest_vehicles
from mcvrp.tasks.support.text import counted, length_text

_SECONDS, _MOST_SECONDS = 0.018, 10.0  # of the search per customer, and in all


@dataclass(frozen=True)
class Unserved:
    """Row of unserved.csv: a customer who is left out."""

    customer: str
    demand: int
    priority: float | None  # None without a column of priorities
    reason: str


@dataclass(frozen=True)
class Served:
    """Routes within the limits of as many customers as were found, and the others."""

    solution: Solution
    left_out: dict[int, str]  # the reason, by node


def most_served(
    rest: Rest,
    limits: str,
    priority: Mapping[int, float] | None = None,
    *,
    seed: int = 0,
    seconds: float = 0.0,
) -> Served:
    """Return routes of as many customers as possible; no customer displaces one of a higher ``priority``.

    ``limits`` are those of the day in words. The search has ``seconds`` of wall-clock time, but at least
    0.018 per customer, up to 10.
    """
    instance = rest.instance
    now = time.perf_counter()
    until = now + max(seconds, min(_SECONDS * instance.n, _MOST_SECONDS))
    nodes, trips = instance.ids.tolist(), round_trips(rest.limits, rest.city, instance).tolist()
    far = too_far(rest.limits, rest.city, instance).tolist()
    reasons = {
        node: f"too far for {limits}: the round trip is {length_text(trip, rest.city.unit)}"
        for node, trip, beyond in zip(nodes, trips, far, strict=True)
        if beyond
    }
    near = [node for node in nodes if node not in reasons]
    ranks = {node: (priority or {}).get(node, 0.0) for node in near}
    classes: dict[float, list[int]] = {}
    for node in sorted(near, key=lambda node: -ranks[node]):
        classes.setdefault(ranks[node], []).append(node)
    bound = fewest_unserved(rest)
    if len(classes) > 1 and bound < instance.n:
        solution = _filled(rest, NO_ROUTES, list(classes.values()), (now + until) / 2, seed)
        if sum(map(len, solution.routes)) < instance.n - bound:
            solution = _filled(rest, solution, [set(near).difference(solution.path.tolist())], until, seed)
    else:
        solution = _filled(rest, _packed(rest, near, bound - len(reasons)), [near], until, seed)
    served = {node for route in solution.routes for node in route}
    reasons |= {node: f"no room within {limits}" for node in near if node not in served}
    return Served(solution, {node: reasons[node] for node in sorted(reasons)})


def fewest_unserved(rest: Rest) -> int:
    """Return a lower bound of the number of customers who are left out."""
    far = too_far(rest.limits, rest.city, rest.instance)
    near = only(rest.instance, set(rest.instance.ids[~far].tolist()))
    return int(far.sum()) + (fewest_left_out(rest.limits, rest.city, near) if near else 0)


def _packed(rest: Rest, near: Collection[int], out: int) -> Solution:
    """Return routes of those ``near`` without the ``out`` largest orders, packed by first-fit decreasing.

    No routes if that violates a limit.
    """
    instance = rest.instance
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    routes = list[list[int]]()
    for node in sorted(near, key=lambda node: -demand[node])[out:]:
        room = (
            each for each in routes if sum(map(demand.__getitem__, each)) + demand[node] <= instance.capacity
        )
        if (route := next(room, None)) is None:
            routes.append(route := [])
        route.append(node)
    solution = Solution.of(routes)
    return NO_ROUTES if rest.limits.broken(rest.city, solution) else solution


def _filled(
    rest: Rest, solution: Solution, classes: Sequence[Collection[int]], until: float, seed: int
) -> Solution:
    """Return ``solution`` with as many customers as possible of each of ``classes``, the most urgent first.

    Classes are tried together, and halved if not all of their customers fit. A single one gets all of the
    time until ``until``, and has the cheapest of its customers served.
    """
    served = {node for route in solution.routes for node in route}
    wanted = {node for members in classes for node in members}
    together = only(rest.instance, served | wanted)
    if wanted <= served or not together:
        return solution
    least, single = fewest_left_out(rest.limits, rest.city, together, served - wanted), len(classes) == 1
    if not least or single:
        seconds = max(until - time.perf_counter(), 0.0) / (1 if single else 4)
        found = serve_most(
            rest.city,
            together,
            rest.limits,
            solution,
            seconds=seconds,
            seed=seed,
            least=least,
            exchanged=wanted,
        )
        if single or sum(map(len, found.routes)) == together.n:
            return found
    half = len(classes) // 2
    for part in (classes[:half], classes[half:]):
        solution = _filled(rest, solution, part, until, seed)
    return solution


def unserved_rows(left_out: Mapping[int, str], day: Day, addresses: Addresses) -> list[Unserved]:
    """Return the rows of unserved.csv: who is ``left_out`` or has too large an order, with the reason."""
    priority, demand, most = day.wishes.priority, day.demands, day.instance.capacity
    large = {
        node: f"{each:,} is more than a vehicle holds ({most:,}): {SPLIT}"
        for node, each in day.oversized.items()
    }
    return [
        Unserved(addresses.ids[node], demand[node], priority[node] if priority else None, reason)
        for node, reason in sorted({**left_out, **large}.items())
    ]


def require_possible(rest: Rest, limits: str, addresses: Addresses, kept: int = 0) -> None:
    """Raise McvrpError, which names the cause, if a bound rules out routes within the limits of ``rest``.

    ``limits`` are those of the day in words, ``kept`` routes are decided, beside which it is planned.
    """
    instance, fleet = rest.instance, rest.limits.fleet
    trips, needed = round_trips(rest.limits, rest.city, instance), fewest_vehicles(instance)
    if too_far(rest.limits, rest.city, instance).any():
        name = shown(addresses.ids[int(instance.ids[trips.argmax()])], 20)
        cause = f"the round trip to {name} is {length_text(float(trips.max()), rest.city.unit)}"
    elif fleet is not None and needed > fleet:
        demand = f"a total demand of {int(instance.demands.sum()):,} at a capacity of {instance.capacity:,}"
        besides = f" besides the {kept:,} kept" if kept else ""
        cause = f"{demand} needs at least {counted(needed, 'vehicle')}{besides}"
    elif fewest_unserved(rest):
        cause = "even the shortest legs and stops take longer in all"
    else:
        return
    raise McvrpError(f"no routes satisfy {limits}: {cause}: allow more, or leave customers out (--drop)")
