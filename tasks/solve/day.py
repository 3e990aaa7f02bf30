"""Routing of a day: all input is checked first, then the day is solved and summarized.

Heavy imports happen after the orders have been checked.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import pandas as pd

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.cities import Addresses, stored_city
from mcvrp.storage.models.models import ModelCard, folder_card
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import VrpFile, is_vrp, read_vrp
from mcvrp.tasks.solve.kept import Kept, Rest, read_kept, require_continued, rest_of
from mcvrp.tasks.solve.limits import limits_text, require_kept, require_seconds
from mcvrp.tasks.solve.member import Found, Member, ModelMember, SearchMember
from mcvrp.tasks.solve.models import chosen_model, model_of
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.parts import DECOMPOSITION, PartsMember, in_parts
from mcvrp.tasks.solve.portfolio import EARLIER, SAVINGS, Finding, Portfolio
from mcvrp.tasks.solve.spec import AUTO, MODEL, Order, SolveSpec
from mcvrp.tasks.solve.start import Start, read_start
from mcvrp.tasks.solve.unserved import Unserved, infeasible, most_served, require_possible, unserved_rows
from mcvrp.tasks.solvers.pyvrp import NO_ROUTES, only
from mcvrp.tasks.solvers.registry import SOLVERS, usual_search
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import NO_LIMITS, SolverFailed, longest_route
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import length_text, listed

KEPT, ROOM = "the kept routes", "PyVRP, with as many customers as possible"  # who finds routes
_NAMED = 5  # customers that are named, of those merged or left out


@dataclass(frozen=True)
class Request:
    """What somebody asks for: the routes of a day's orders.

    Parameters
    ----------
    orders
        CVRPLIB instance (``unrounded``: see `read_vrp`), or orders, see `read_orders`.
    city, model
        Names in the store, a city, or the folder of an exported model. The city may be None for a CVRPLIB
        instance.
    capacity
        Of a vehicle, None if the orders or the city define it.
    start, keep
        Files of earlier routes to start from and of decided ones, see `read_start` and `read_kept`.
    date
        Of the day, whose rows are read if files have several days: routes.csv then has it, as files of driven
        routes need.
    usual_model
        Model to use if ``model`` is None and it is one of the city; otherwise the city's only one is used,
        and without any the day is searched without a model.
    """

    orders: str | pd.DataFrame | Sequence[Order]
    city: str | City | None = None
    model: str | Store | None = None
    capacity: int | None = None
    start: str | None = None
    keep: str | None = None
    date: datetime.date | None = None
    unrounded: bool = False
    usual_model: str | None = None


@dataclass(frozen=True)
class Planned:
    """Day that can be solved: its orders, their city and the model."""

    request: Request
    city_name: str
    city: City
    addresses: Addresses
    day: Day
    card: ModelCard | None  # None for a search without a model
    spec: SolveSpec
    rest: Rest  # what is to be planned
    digest: str  # hash of city, customers, demands and capacity, also of customers who are left out later
    vrp: VrpFile | None = None  # CVRPLIB file of the orders, if any
    start: Start | None = None  # earlier routes to start from, if any
    kept: Kept | None = None  # decided routes, if any
    without_model: str = ""  # reason for which no model of the city is used, if one was looked for

    @property
    def date(self) -> datetime.date | None:
        """Date of the day, for files that are ingested after it was driven."""
        return self.request.date

    @property
    def limits(self) -> str:
        """The limits of the day in words."""
        return limits_text(self.spec.limits, self.city.unit)


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of the start-up and of the search."""

    start_up: float
    search: float


@dataclass(frozen=True)
class SolveSummary:
    """Summary of a routed day; costs are in the city's unit."""

    orders: str
    digest: str
    city: str
    city_id: str
    unit: str
    model: str | None  # like its version, None without a model
    model_version: int | None
    lines: int
    customers: int
    demand: int
    capacity: int
    routes: int
    utilisation: float  # demand over total capacity
    cost: float  # of the routes that are written: the cheapest
    found_by: str
    findings: tuple[Finding, ...]  # the best of each that searched, the cheapest first
    seconds: Seconds
    notes: tuple[str, ...]
    failures: tuple[str, ...] = ()  # of those that searched, with the reasons; also in the notes
    best_known: float | None = None  # cost in the .sol file of a CVRPLIB instance
    straight: bool = False  # whether costs are straight-line distances
    unserved: tuple[Unserved, ...] = ()  # customers who were left out
    service: str = ""  # service times of the orders in words, empty without a shift


@dataclass(frozen=True)
class Solved:
    planned: Planned
    solution: Solution
    summary: SolveSummary


def plan_day(store: Store, request: Request, spec: SolveSpec) -> Planned:
    """Return the checked plan of a day; nothing is solved.

    Raises McvrpError if city and model do not exist or do not match, the orders are invalid, or the limits
    are infeasible.
    """
    require_kept(spec)
    orders, date = request.orders, request.date
    vrp = read_vrp(store, orders, unrounded=request.unrounded) if is_vrp(orders) else None
    name, problem, addresses = _city(store, request.city, vrp)
    spec = spec.in_unit(problem.unit)
    require_seconds(spec, problem, name)
    table = vrp.orders if vrp else read_orders(orders, store)
    day = checked_day(table, problem, addresses, name, request.capacity, spec, date)
    # files of routes have the names of the day; those of the city stay: nights read its routes.csv by them
    named = replace(addresses, columns={**addresses.columns, **spec.columns})
    decided = None
    if request.keep:
        decided = read_kept(store, request.keep, named, day.instance, day.too_large, date, name)
    limits = spec.limits if spec.shift is None else replace(spec.limits, service=day.wishes.service)
    rest = rest_of(decided, problem, addresses, day.instance, limits, drop=spec.drop)
    require_continued(rest, spec)
    if not spec.drop:
        require_possible(rest, addresses, limits_text(limits, problem.unit))
    if search := SOLVERS.get(spec.by):
        search.require_costs(problem, "use --by pyvrp")
    card, without = _card(store, request, spec, problem, name)
    free = rest.free(day.instance)
    start = read_start(store, request.start, problem, named, free, name) if request.start and free else None
    digest = _digest(day.instance)
    return Planned(
        request, name, problem, addresses, day, card, spec, rest, digest, vrp, start, decided, without
    )


def _card(
    store: Store, request: Request, spec: SolveSpec, city: City, name: str
) -> tuple[ModelCard | None, str]:
    """Return the card of the model of the city ``name``, None without one, and why none was found."""
    model, without = request.model, ""
    if spec.by not in (AUTO, MODEL) or spec.samples == 0:
        model = None
    elif model is None and request.usual_model is not None:
        model, without = model_of(store, city, name, request.usual_model)
        if model is None and (spec.by == MODEL or spec.version is not None):
            raise McvrpError(f"{without}: train one, or search without a model")
    if model is None:
        if spec.by == MODEL:
            raise McvrpError(
                "by model needs a model and its samples: name a model, and set samples to 1 or more"
            )
        return None, without
    card = folder_card(model) if isinstance(model, Store) else chosen_model(store, model, spec.version)
    try:
        card.require_city(city, name)
    except McvrpError as error:
        raise McvrpError(f"{error}; use --samples 0 to search without a model") from error
    return card, without


def _digest(instance: Instance) -> str:
    content = hashlib.sha256(f"{instance.city_id} {instance.capacity}".encode())
    content.update(instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes())
    return content.hexdigest()[:8]


def _city(store: Store, name: str | City | None, vrp: VrpFile | None) -> tuple[str, City, Addresses]:
    if isinstance(name, City):
        return "city", name, Addresses(tuple(name.ids_of(range(len(name.xy)))))
    if name is None:
        if not vrp:
            raise McvrpError("city is missing: name one; only a CVRPLIB instance (.vrp) needs none")
        return PurePath(vrp.name).stem, vrp.city, Addresses.numbered(vrp.city.customers)
    stored = stored_city(store, name)
    if vrp and vrp.city.city_id != stored.city.city_id:
        raise McvrpError(
            f"city {name!r} is not that of {vrp.name}, which has its own: leave the city out (in a form, "
            "choose its type None)"
        )
    return name, stored.city, stored.addresses


def solve_day(store: Store, planned: Planned, began: float) -> Solved:
    """Return the cheapest routes of a day that the portfolio finds.

    ``began`` is the `time.monotonic` at which the user's request began. Raises McvrpError if no routes within
    the limits are found, which names the customers without whom there are some.
    """
    spec, rest, left_out = planned.spec, planned.rest, dict[int, str]()
    if spec.drop and spec.limits.given and rest.instance:
        served = most_served(rest, planned.limits, planned.day.wishes.priority, seed=spec.seed)
        if not served.solution.routes and not rest.whole:
            raise infeasible(rest, served, planned.addresses, planned.limits)
        rest, left_out = rest.without(served.left_out, served.solution), served.left_out
    kept = only(planned.day.instance, {node for route in rest.whole for node in route})
    instance, limits = rest.instance or kept, rest.limits if rest.instance else NO_LIMITS
    assert instance is not None  # there are kept routes if nothing is left to plan
    patient = spec.by == MODEL
    portfolio = Portfolio(rest.city, instance, limits, spec.time_limit, began, patient=patient)
    first = list(_first_routes(planned, rest))
    for found in first:
        portfolio.take(found)
    best = portfolio.solution
    # one route, or all at one place: nothing to search for
    trivial = best is not None and (instance.n == 1 or cost(rest.city, best) == 0)
    starts = tuple(found.solution for found in first if found.solution and found.by != SAVINGS)
    members = [] if trivial or rest.instance is None else _members(store, planned, rest, starts)
    solution = _found(planned, rest, portfolio, members)
    routes = rest.day(solution if rest.instance else NO_ROUTES)
    served_orders = only(planned.day.instance, {node for route in routes.routes for node in route})
    assert served_orders is not None
    day = replace(planned.day, instance=served_orders)
    unserved = unserved_rows(left_out, planned.day, planned.addresses)
    summary = _summary(planned, served_orders, rest, portfolio, routes, unserved)
    return Solved(replace(planned, day=day), routes, summary)


def _first_routes(planned: Planned, rest: Rest) -> Iterator[Found]:
    """Yield the routes of the ``rest`` that are known before the search."""
    if rest.instance is None:
        yield Found(KEPT, rest.day(NO_ROUTES))
        return
    (built,) = savings(rest.city, rest.instance, planned.spec.seed, 1)
    if planned.spec.by == AUTO or rest.instance.n == 1 or cost(rest.city, built) == 0:
        yield Found(SAVINGS, built)
    if planned.start:
        yield Found(EARLIER, rest.contracted(planned.start.solution))
    if rest.start:
        yield Found(KEPT if rest is planned.rest else ROOM, rest.start)


def _found(planned: Planned, rest: Rest, portfolio: Portfolio, members: Sequence[Member]) -> Solution:
    label = f"solve {planned.day.source}"
    try:
        return portfolio.search(members, label)
    except SolverFailed:
        if not rest.limits.given or rest.instance is None:
            raise
        served = most_served(rest, planned.limits, seed=planned.spec.seed)
        if served.left_out:
            raise infeasible(rest, served, planned.addresses, planned.limits) from None
        portfolio.take(Found(ROOM, served.solution))
        return portfolio.search([], label)


def _members(store: Store, planned: Planned, rest: Rest, starts: tuple[Solution, ...] = ()) -> list[Member]:
    """Return the members: the model if there is one, and a solver on each other core, from ``starts``."""
    spec, city, instance, card = planned.spec, rest.city, rest.instance, planned.card
    assert instance is not None
    solver = usual_search(city) if spec.by in (AUTO, MODEL) else spec.by
    cores = 0 if spec.by == MODEL else max(1, spec.cores - bool(card))
    # made once, because its copies share the day's costs
    first = SearchMember.of(solver, city, instance, spec, spec.seed, limits=rest.limits) if cores else None
    searches = [replace(first, seed=spec.seed + k, starts=starts) for k in range(cores)] if first else []
    if first and spec.by == AUTO and in_parts(solver, instance.n, spec.time_limit):
        decomposed = {"starts": starts, "cores": cores, "label": DECOMPOSITION}
        searches = [PartsMember(**vars(first) | decomposed)]
    if card is None or rest.parts is not None:  # a model does not continue routes that have begun
        return list(searches)
    label = f"model {card.name} version {card.version}"
    from_samples = f"{SOLVERS[solver].label} from samples"
    then = replace(first, seed=spec.seed + cores, label=from_samples) if first else None
    folder = planned.request.model
    at, name = (folder, None) if isinstance(folder, Store) else (store, card.name)
    rotations = spec.rotations if card.rotation_trained else 1
    model = ModelMember(label, at, name, card.version, city, instance, spec, rotations, then)
    return [model, *searches]


def _summary(
    planned: Planned,
    instance: Instance,
    rest: Rest,
    portfolio: Portfolio,
    solution: Solution,
    unserved: Sequence[Unserved],
) -> SolveSummary:
    day, card, whole = planned.day, planned.card, Solution(rest.whole if rest.instance else ())
    demand, routes = int(instance.demands.sum()), len(solution.routes)
    failures = tuple(f"{label}: {reason}" for label, reason in portfolio.failures.items())
    findings = tuple(
        replace(found, cost=found.cost + cost(planned.city, whole), routes=found.routes + len(whole.routes))
        for found in sorted(portfolio.findings.values(), key=lambda each: (each.cost, each.seconds))
    )
    return SolveSummary(
        orders=day.source,
        digest=planned.digest,
        city=planned.city_name,
        city_id=planned.city.city_id,
        unit=planned.city.unit,
        model=card.name if card else None,
        model_version=card.version if card else None,
        lines=day.orders,
        customers=instance.n,
        demand=demand,
        capacity=instance.capacity,
        routes=routes,
        utilisation=demand / (routes * instance.capacity),
        cost=cost(planned.city, solution),
        found_by=findings[0].by,
        findings=findings,
        seconds=Seconds(portfolio.start_up, portfolio.seconds),
        notes=(*_notes(planned, portfolio), *_limit_notes(planned, rest, solution, unserved), *failures),
        failures=failures,
        straight=planned.city.matrix is None,
        best_known=planned.vrp.best.cost if planned.vrp and planned.vrp.best and not unserved else None,
        unserved=tuple(unserved),
        service=day.wishes.service_text,
    )


def _notes(planned: Planned, portfolio: Portfolio) -> Iterator[str]:
    day, card, n = planned.day, planned.card, planned.day.instance.n
    yield from day.notes
    if planned.without_model:
        yield f"searched without a model: {planned.without_model}"
    if planned.start:
        yield f"started from earlier routes: {planned.start.note}"
    for merged in day.merged[:_NAMED]:
        yield f"{merged.orders} orders of customer {merged.customer!r} merged into one of {merged.demand:,}"
    if len(day.merged) > _NAMED:
        yield f"orders of {len(day.merged) - _NAMED:,} more customers merged, one delivery each"
    if card and card.smallest and card.largest and not card.smallest <= n <= card.largest:
        yield (
            f"the model was trained on {card.smallest} to {card.largest} customers and this day has {n}: "
            "its gap may be larger"
        )
    if card and card.city_id != planned.city.city_id:
        yield f"the model was trained before the city was extended (on city {card.city_id})"
    if portfolio.interrupted:
        yield f"interrupted after {duration(portfolio.seconds)}: these are the best routes so far"
    for label, what in portfolio.silent.items():
        yield f"{label} has found {what} in {duration(portfolio.seconds)}"


def _limit_notes(
    planned: Planned, rest: Rest, solution: Solution, unserved: Sequence[Unserved]
) -> Iterator[str]:
    """Yield what the limits, the kept routes and the customers who are left out mean for the routes."""
    limits, kept = planned.spec.limits, planned.kept
    if kept:
        begun = len(rest.begun.routes)
        yield f"{kept.name} keeps {len(rest.whole):,} whole routes and the first stops of {begun:,} more"
        if planned.card and begun:
            yield "the model was not used: it does not continue routes that have begun"
    planned_routes = Solution(solution.routes[len(rest.whole) :])
    if limits.given and planned_routes.routes:
        service = None if limits.service is None else planned.day.wishes.service
        length = length_text(longest_route(planned.city, planned_routes, service), planned.city.unit)
        stops = " with its stops" if service else ""
        others = ", besides those that are kept whole," if rest.whole else ""
        yield f"the routes{others} satisfy {planned.limits}; the longest is {length}{stops}"
    if unserved:
        names = listed((shown(each.customer) for each in unserved), _NAMED)
        yield f"{len(unserved):,} customers were left out (unserved.csv has the reasons): {names}"
