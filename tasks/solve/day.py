"""A day's search and its result: the cheapest routes that the portfolio finds for a plan."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import Instance, Solution, cost
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.osrm_server import Way
from mcvrp.tasks.solve.limits import limits_text, within_length
from mcvrp.tasks.solve.member import Found
from mcvrp.tasks.solve.members import members_of
from mcvrp.tasks.solve.plan import Planned
from mcvrp.tasks.solve.portfolio import SAVINGS, Finding, Portfolio, Searched
from mcvrp.tasks.solve.spec import AUTO, MODEL
from mcvrp.tasks.solve.unserved import Unserved, most_served, unserved_rows
from mcvrp.tasks.solvers.pyvrp import only
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import longest_route
from mcvrp.tasks.support.text import counted, length_text, listed

KEPT, ROOM = "the kept routes", "PyVRP, with as many customers as possible"  # who finds routes
_DROP_SHARE = 0.25  # of the time limit for whom to leave out
_NAMED = 5  # customers that are named, of those left out


@dataclass(frozen=True)
class Solved:
    """A routed day: its plan, its search, the routes and the customers who were left out.

    Costs are in the city's unit. All figures of a day are computed from these four. ``ways`` are those of the
    routes along the streets, see `on_streets`; empty if lines are straight.
    """

    planned: Planned
    search: Searched
    solution: Solution
    unserved: tuple[Unserved, ...] = ()
    ways: tuple[Way, ...] = ()
    ways_note: str = ""  # why there are none, or what is odd about them

    @property
    def instance(self) -> Instance:
        """The orders that are served."""
        served = only(self.planned.day.instance, {node for route in self.solution.routes for node in route})
        assert served is not None
        return served

    @property
    def names(self) -> list[str]:
        """Names of the routes: those that are kept have those of their file, the others the next numbers."""
        kept = self.planned.kept.names if self.planned.kept else ()
        numbers = (name for k in itertools.count(1) if (name := str(k)) not in kept)
        return [*kept, *itertools.islice(numbers, len(self.solution.routes) - len(kept))]

    @property
    def cost(self) -> float:
        """Cost of all routes."""
        return cost(self.planned.city, self.solution)

    @property
    def found_by(self) -> str:
        """The member of the portfolio that found the routes."""
        return self.search.findings[0].by

    @property
    def failures(self) -> tuple[str, ...]:
        """Members of the portfolio that failed, with the reasons."""
        return self.search.failures

    @property
    def best_known(self) -> float | None:
        """Cost in the .sol file of a CVRPLIB instance; None without one, or if customers are left out."""
        vrp = self.planned.vrp
        return vrp.best if vrp and not self.unserved else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of orders, model, limits and search, one sentence each."""
        notes = *_notes(self), *self.search.notes, *_limit_notes(self)
        return (*notes, *filter(None, [self.ways_note]), *self.failures)


def solve_day(store: Store, planned: Planned, began: float) -> Solved:
    """Return the cheapest routes of a day that the portfolio finds.

    ``began`` is the `time.monotonic` at which the user's request began. Raises McvrpError if no routes within
    the limits are found.
    """
    spec, rest, left_out = planned.spec, planned.rest, dict[int, str]()
    kept = planned.decided
    if rest and spec.drop and rest.limits.given:
        priority, seconds = planned.day.wishes.priority, _DROP_SHARE * spec.time_limit
        served = most_served(rest, planned.limits, priority, seed=spec.seed, seconds=seconds)
        if not served.solution.routes and not kept.routes:
            raise McvrpError(
                f"no routes within {planned.limits} were found, not even for one customer: allow more"
            )
        rest, left_out = rest.without(served.left_out, served.solution), served.left_out
    unserved = tuple(unserved_rows(left_out, planned.day, planned.addresses))
    kept_cost, kept_routes = cost(planned.city, kept), len(kept.routes)
    if rest is None:  # all is decided, or nobody else has room
        decided = Finding(KEPT, kept_cost, kept_routes, seconds=0.0)
        return Solved(planned, Searched((decided,), time.monotonic() - began, 0.0), kept, unserved)
    patient = spec.by == MODEL
    portfolio = Portfolio(rest.city, rest.instance, rest.limits, spec.time_limit, began, patient=patient)
    (built,) = savings(rest.city, rest.instance, spec.seed, 1)
    built = within_length(built, rest.limits, rest.city)
    trivial = rest.instance.n == 1 or cost(rest.city, built) == 0  # one route, or all at one place
    first = {SAVINGS: built} if spec.by == AUTO or trivial else {}
    first |= {ROOM: rest.start} if rest.start else {}
    for by, routes in first.items():
        portfolio.take(Found(by, routes))
    # a search has starts of its own, which know no limits
    starts = tuple(first.values()) if rest.limits.given else ()
    members = [] if trivial and portfolio.solution else members_of(store, planned, rest, starts)
    solution = portfolio.search(members, f"solve {planned.day.source}")
    search = portfolio.searched(kept_cost, kept_routes)
    return Solved(planned, search, Solution((*kept.routes, *solution.routes)), unserved)


def _notes(solved: Solved) -> Iterator[str]:
    """Yield what was assumed of the orders and the model."""
    planned, n = solved.planned, solved.instance.n
    day, card, decoded = planned.day, planned.card, any(each.samples for each in solved.search.findings)
    yield from day.notes
    if planned.without_model:
        yield f"searched without a model: {planned.without_model}"
    if decoded and card and card.smallest and card.largest and not card.smallest <= n <= card.largest:
        yield (
            f"the model was trained on {card.smallest} to {card.largest} customers and this day has {n}: "
            "its gap may be larger"
        )
    if card and card.city_id != planned.city.city_id:
        yield f"the model was trained before the city was extended (on city {card.city_id})"


def _limit_notes(solved: Solved) -> Iterator[str]:
    """Yield what the limits, the kept routes and the customers who are left out mean for the routes."""
    planned, unserved = solved.planned, solved.unserved
    limits, kept = planned.spec.limits, planned.decided.routes
    if planned.kept:
        names = listed(planned.kept.names, most=20)
        every = "" if planned.kept.marked else ", all of them, as it has no column kept"
        yield f"{planned.kept.name} keeps {counted(len(kept), 'route')}: {names}{every}"
        if again := planned.kept.others:
            routes = f"{counted(len(again), 'route')}, {listed(again, most=20)}"
            yield f"planned again, as not marked in {planned.kept.name}: {routes}"
        if (start := planned.spec.start_time) and not all(planned.kept.starts):
            yield f"kept routes without a departure in {planned.kept.name} leave at {start}"
    planned_routes = Solution(solved.solution.routes[len(kept) :])
    service = None if limits.service is None else planned.day.wishes.service
    alone = replace(limits, fleet=None, service=service)  # of each route
    named = zip(solved.names, kept, strict=False)
    if beyond := [name for name, route in named if alone.broken(planned.city, Solution((route,)))]:
        yield f"kept routes longer than {limits_text(alone, planned.city.unit)}: {listed(beyond, most=20)}"
    if limits.given and planned_routes.routes:
        length = length_text(longest_route(planned.city, planned_routes, service), planned.city.unit)
        stops = " with its stops" if service else ""
        besides = ", kept ones included but for their length" if kept else ""
        others = " of the others" if kept else ""
        yield f"the routes satisfy {planned.limits}{besides}; the longest{others} is {length}{stops}"
    if unserved:
        names = listed((shown(each.customer) for each in unserved), _NAMED)
        left_out = f"{counted(len(unserved), 'customer')} left out"
        yield f"{left_out} (unserved.csv has the reasons): {names}"
