"""Routing of a day: all input is checked first, then the day is solved and summarized.

Heavy imports happen after the orders have been checked.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, cost
from mcvrp.storage.cities import Addresses, stored_city
from mcvrp.storage.models.models import ModelCard, folder_card, model_card
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import VrpFile, is_vrp, read_vrp
from mcvrp.tasks.solve.limits import limits_text, require_kept, require_possible
from mcvrp.tasks.solve.member import Found, Member, ModelMember, SearchMember
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.portfolio import EARLIER, SAVINGS, Finding, Portfolio
from mcvrp.tasks.solve.spec import AUTO, MODEL, Order, SolveSpec
from mcvrp.tasks.solve.start import Start, read_start
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import longest_route
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import length_text, listed

if TYPE_CHECKING:
    from mcvrp.model.problem import Solution

_NAMED = 5  # merged customers that are named


@dataclass(frozen=True)
class Planned:
    """Day that can be solved: its orders, their city and the model."""

    city_name: str
    city: City
    addresses: Addresses
    day: Day
    card: ModelCard | None  # None for a search without a model
    spec: SolveSpec
    folder: Store | None = None  # of an exported model
    vrp: VrpFile | None = None  # CVRPLIB file of the orders, if any
    start: Start | None = None  # earlier routes to start from, if any
    date: datetime.date | None = None  # of the day, for files that are ingested after it was driven

    @property
    def digest(self) -> str:
        """Hash of city, customers, demands and capacity."""
        instance = self.day.instance
        content = hashlib.sha256(f"{instance.city_id} {instance.capacity}".encode())
        content.update(instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes())
        return content.hexdigest()[:8]


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
    best_known: float | None = None  # cost in the .sol file of a CVRPLIB instance
    straight: bool = False  # whether costs are straight-line distances


@dataclass(frozen=True)
class Solved:
    """Routed day: plan, routes and summary."""

    planned: Planned
    solution: Solution
    summary: SolveSummary


def plan_day(
    store: Store,
    city: str | None,
    model: str | Store | None,
    orders: str | Sequence[Order],
    capacity: int | None,
    spec: SolveSpec,
    *,
    unrounded: bool = False,
    start: str | None = None,
    date: datetime.date | None = None,
    columns: Mapping[str, str] | None = None,
) -> Planned:
    """Return the checked plan of a day; nothing is solved.

    Parameters
    ----------
    city, model
        Names in the store, or the folder of an exported model. The city may be None for a CVRPLIB instance.
    orders
        CVRPLIB instance (``unrounded``: see `read_vrp`), or orders, see `read_orders`.
    capacity
        Of a vehicle, None if the orders or the city define it.
    start
        File of earlier routes to start from, see `read_start`.
    date
        Of the day: routes.csv then has it, as files of driven routes need.
    columns
        Names of columns of the orders by field, see `checked_day`.

    Raises McvrpError if city and model do not exist or do not match, the orders are invalid, or the limits
    are infeasible.
    """
    require_kept(spec)
    vrp = read_vrp(store, orders, unrounded=unrounded) if is_vrp(orders) else None
    name, problem, addresses = _city(store, city, vrp)
    spec = spec.in_unit(problem.unit)
    table = vrp.orders if vrp else read_orders(orders, store)
    day = checked_day(table, problem, addresses, name, capacity, columns)
    require_possible(spec.limits, problem, addresses, day.instance)
    if search := SOLVERS.get(spec.by):
        search.require_costs(problem, "use --by pyvrp")
    folder, card = model if isinstance(model, Store) else None, None
    if model is not None and spec.by in (AUTO, MODEL) and spec.samples:
        card = folder_card(model) if isinstance(model, Store) else chosen_model(store, model, spec.version)
        card.require_city(problem, name)
    elif spec.by == MODEL:
        raise McvrpError("by model needs a model and its samples: name a model, and set samples to 1 or more")
    first = read_start(store, start, problem, addresses, day.instance) if start else None
    return Planned(name, problem, addresses, day, card, spec, folder, vrp, first, date)


def _city(store: Store, name: str | None, vrp: VrpFile | None) -> tuple[str, City, Addresses]:
    if name is None:
        if not vrp:
            raise McvrpError("city is missing: name one; only a CVRPLIB instance (.vrp) needs none")
        return PurePath(vrp.name).stem, vrp.city, Addresses.numbered(vrp.city.customers)
    stored = stored_city(store, name)
    if vrp and vrp.city.city_id != stored.city.city_id:
        raise McvrpError(f"city {name!r} is not that of {vrp.name}, which has its own: leave the city out")
    return name, stored.city, stored.addresses


def chosen_model(store: Store, name: str, version: int | str | None) -> ModelCard:
    """Return the card of a version (default: the champion, otherwise the latest); raises as `model_card`."""
    if version is None and pointer(store, name, "champion").version is not None:
        version = "champion"
    return model_card(store, name, None if version == "latest" else version)  # type: ignore[arg-type]


def solve_day(store: Store, planned: Planned, began: float, *, patient: bool = False) -> Solved:
    """Return the cheapest routes of a day that the portfolio finds.

    ``began`` is the `time.monotonic` at which the user's request began; with ``patient`` the search takes all
    of its time. Raises SolverFailed if no routes within the limits are found.
    """
    spec, city, instance = planned.spec, planned.city, planned.day.instance
    patient = patient or spec.by == MODEL
    portfolio = Portfolio(city, instance, spec.limits, spec.time_limit, began, patient=patient)
    (first,) = savings(city, instance, spec.seed, 1)
    only = instance.n == 1 or cost(city, first) == 0  # one route, or all at one place: nothing to search for
    if spec.by == AUTO or only:
        portfolio.take(Found(SAVINGS, first))
    if planned.start:
        portfolio.take(Found(EARLIER, planned.start.solution))
    members = [] if only and portfolio.solution else _members(store, planned)
    solution = portfolio.search(members, f"solve {planned.day.source}")
    return Solved(planned, solution, _summary(planned, portfolio, solution))


def _members(store: Store, planned: Planned) -> list[Member]:
    """Return the members: the model if there is one, and a solver on each core that is left."""
    spec, city, instance, card = planned.spec, planned.city, planned.day.instance, planned.card
    solver = usual_search(city) if spec.by in (AUTO, MODEL) else spec.by
    starts = (planned.start.solution,) if planned.start else ()
    cores = 0 if spec.by == MODEL else max(1, spec.cores - bool(card))
    member = partial(SearchMember.of, solver, city, instance, spec)
    searches = [member(spec.seed + k, starts=starts) for k in range(cores)]
    if card is None:
        return list(searches)
    label = f"model {card.name} version {card.version}"
    then = (
        member(spec.seed + cores, label=f"{SOLVERS[solver].label} from samples") if spec.by == AUTO else None
    )
    at, name = (planned.folder, None) if planned.folder else (store, card.name)
    rotations = spec.rotations if card.rotation_trained else 1
    model = ModelMember(label, at, name, card.version, city, instance, spec, rotations, then)
    return [model, *searches]


def usual_search(city: City) -> str:
    """Return the default search: HGS if costs are symmetric, otherwise PyVRP."""
    return "hgs" if city.symmetric else "pyvrp"


def _summary(planned: Planned, portfolio: Portfolio, solution: Solution) -> SolveSummary:
    day, instance, card = planned.day, planned.day.instance, planned.card
    demand, routes = int(instance.demands.sum()), len(solution.routes)
    findings = tuple(sorted(portfolio.findings.values(), key=lambda finding: (finding.cost, finding.seconds)))
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
        notes=tuple(_notes(planned, portfolio, solution)),
        straight=planned.city.matrix is None,
        best_known=planned.vrp.best.cost if planned.vrp and planned.vrp.best else None,
    )


def _notes(planned: Planned, portfolio: Portfolio, solution: Solution) -> Iterator[str]:
    """Yield caveats of the routes, one sentence each."""
    day, card, spec, n = planned.day, planned.card, planned.spec, planned.day.instance.n
    yield from day.notes
    if planned.start:
        yield f"started from earlier routes: {planned.start.note}"
    for merged in day.merged[:_NAMED]:
        yield f"{merged.orders} orders of customer {merged.customer!r} merged into one of {merged.demand:,}"
    if len(day.merged) > _NAMED:
        yield f"orders of {len(day.merged) - _NAMED:,} more customers merged, one delivery each"
    if day.further:
        yield f"further columns of the orders, carried into the routes: {listed(day.further)}"
    if card and card.smallest and card.largest and not card.smallest <= n <= card.largest:
        yield (
            f"the model was trained on {card.smallest} to {card.largest} customers and this day has {n}: "
            "its gap may be larger"
        )
    if card and card.city_id != planned.city.city_id:
        yield f"the model was trained before the city was extended (on city {card.city_id})"
    if portfolio.interrupted:
        yield f"interrupted after {duration(portfolio.seconds)}: these are the best routes so far"
    yield from portfolio.failures
    for label in dict.fromkeys(portfolio.silent):
        yield f"{label} has found no routes in {duration(portfolio.seconds)}"
    if spec.limits.given:
        longest = length_text(longest_route(planned.city, solution), planned.city.unit)
        yield f"the routes satisfy {limits_text(spec.limits, planned.city.unit)}; the longest is {longest}"
