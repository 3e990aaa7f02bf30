"""Routing of a day: all input is checked first, then the day is solved and summarized.

Heavy imports happen after the orders have been checked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, cost, gap
from mcvrp.storage.cities import Addresses, stored_city
from mcvrp.storage.models.models import ModelCard, folder_card, load_model, model_card
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import VrpFile, is_vrp, read_vrp
from mcvrp.tasks.solve.kept import Rest
from mcvrp.tasks.solve.limits import limits_text, require_kept
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.start import Start, read_start
from mcvrp.tasks.solve.unserved import require_possible
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import SolverFailed, longest_route
from mcvrp.tasks.support.text import length_text, listed

if TYPE_CHECKING:
    from mcvrp.model.network import FmMcvrp
    from mcvrp.model.problem import Solution
    from mcvrp.tasks.solve.search import Baseline, Routed

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

    @property
    def digest(self) -> str:
        """Hash of city, customers, demands and capacity."""
        instance = self.day.instance
        content = hashlib.sha256(f"{instance.city_id} {instance.capacity}".encode())
        content.update(instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes())
        return content.hexdigest()[:8]


@dataclass(frozen=True)
class Compared:
    """The same day solved by HGS or PyVRP from scratch, whose routes are ``written`` if they cost less.

    ``gap`` is that of the routes of the model or of the search to them, in percent.
    """

    label: str
    configuration: str
    cost: float
    gap: float
    routes: int
    written: bool


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of each step; ``start_up`` includes loading the model."""

    start_up: float
    decoding: float
    polishing: float
    comparing: float


@dataclass(frozen=True)
class SolveSummary:
    """Summary of a routed day; costs are in the city's unit."""

    orders: str
    digest: str
    city: str
    city_id: str
    unit: str
    model: str | None  # like its version and the best sample, None without a model
    model_version: int | None
    lines: int
    customers: int
    demand: int
    capacity: int
    routes: int
    utilisation: float  # demand over total capacity
    cost: float  # of the routes that are written: the cheapest
    own_cost: float  # of the routes of the model or of the search, without the comparison
    samples: int
    best_sample: float | None
    polish: str
    device: str
    compared: Compared | None
    seconds: Seconds
    notes: tuple[str, ...]
    best_known: float | None = None  # cost in the .sol file of a CVRPLIB instance


@dataclass(frozen=True)
class Solved:
    """Routed day: plan, routes and summary."""

    planned: Planned
    solution: Solution
    summary: SolveSummary


def plan_day(
    store: Store,
    city: str | None,
    model: str | Store,
    orders: str | Sequence[Order],
    capacity: int | None,
    spec: SolveSpec,
    *,
    unrounded: bool = False,
    start: str | None = None,
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

    Raises McvrpError if city and model do not exist or do not match, the orders are invalid, or the limits
    are infeasible.
    """
    require_kept(spec)
    vrp = read_vrp(store, orders, unrounded=unrounded) if is_vrp(orders) else None
    name, problem, addresses = _city(store, city, vrp)
    day = checked_day(vrp.orders if vrp else read_orders(orders, store), problem, addresses, name, capacity)
    require_possible(Rest(problem, addresses, day.instance, spec.limits), addresses, limits_text(spec.limits))
    if finisher := SOLVERS.get(spec.polish):
        finisher.require_costs(problem, "polish with pyvrp")
    folder, card = model if isinstance(model, Store) else None, None
    if spec.samples:
        card = folder_card(model) if isinstance(model, Store) else chosen_model(store, model, spec.version)
        card.require_city(problem)
    first = read_start(store, start, problem, addresses, day.instance) if start else None
    return Planned(name, problem, addresses, day, card, spec, folder, vrp, first)


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


def solve_day(store: Store, planned: Planned, began: float) -> Solved:
    """Return the routes of a day; ``began`` is the `time.monotonic` at which the user's request began."""
    from mcvrp.tasks.solve.search import baseline, cheapest, route, searched, usual_search

    spec, city, instance = planned.spec, planned.city, planned.day.instance
    first = planned.start.solution if planned.start else None
    if planned.card is None:
        start_up = time.monotonic() - began
        routed = searched(city, instance, spec, first)
    else:
        network = _network(store, planned, planned.card)
        start_up = time.monotonic() - began
        rotations = spec.rotations if planned.card.rotation_trained else 1
        routed = route(network, city, instance, spec, rotations=rotations, start=first)
    other, notes = None, list[str]()
    # a search from scratch is not compared with itself
    if spec.hgs and (planned.card or first or routed.polish != usual_search(city)):
        try:
            other = baseline(city, instance, routed.fair, spec.seed, spec.limits)
        except SolverFailed as error:  # the routes are valid without a comparison
            notes.append(f"no comparison: {error}")
    seconds = Seconds(start_up, routed.decoding, routed.polishing, other.seconds if other else 0.0)
    solution = cheapest(city, instance, [routed.solution, *([other.solution] if other else [])], spec)
    notes = [*_notes(planned, routed, other, solution), *notes]
    return Solved(planned, solution, _summary(planned, routed, other, solution, seconds, notes))


def _network(store: Store, planned: Planned, card: ModelCard) -> FmMcvrp:
    import torch

    folder = planned.folder
    network, _ = load_model(folder.uri) if folder else load_model(store, card.name, card.version)
    return network.to("cuda" if torch.cuda.is_available() else "cpu")


def _summary(
    planned: Planned,
    routed: Routed,
    other: Baseline | None,
    solution: Solution,
    seconds: Seconds,
    notes: Sequence[str],
) -> SolveSummary:
    day, instance, card = planned.day, planned.day.instance, planned.card
    demand, routes = int(instance.demands.sum()), len(solution.routes)
    compared = None
    if other:
        ours = gap(routed.cost, other.cost) if other.cost else 0.0
        size, written = len(other.solution.routes), solution != routed.solution
        compared = Compared(other.label, other.configuration, other.cost, ours, size, written)
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
        own_cost=routed.cost,
        samples=routed.samples,
        best_sample=routed.sampled,
        polish=routed.polish,
        device=routed.device,
        compared=compared,
        seconds=seconds,
        notes=tuple(notes),
        best_known=planned.vrp.best.cost if planned.vrp and planned.vrp.best else None,
    )


def _notes(planned: Planned, routed: Routed, other: Baseline | None, solution: Solution) -> Iterator[str]:
    """Yield caveats of the routes, one sentence each."""
    day, card, spec, n = planned.day, planned.card, planned.spec, planned.day.instance.n
    yield from day.notes
    if planned.start:
        yield f"started from earlier routes: {planned.start.note}"
    for merged in day.merged[:_NAMED]:
        yield f"{merged.orders} orders of customer {merged.customer!r} merged into one of {merged.demand:,}"
    if len(day.merged) > _NAMED:
        yield f"orders of {len(day.merged) - _NAMED:,} more customers merged, one delivery each"
    if day.ignored:
        yield f"ignored column{'s' if len(day.ignored) > 1 else ''}: {listed(day.ignored)}"
    if card and card.smallest and card.largest and not card.smallest <= n <= card.largest:
        yield (
            f"the model was trained on {card.smallest} to {card.largest} customers and this day has {n}: "
            "its gap may be larger"
        )
    if card and card.city_id != planned.city.city_id:
        yield f"the model was trained before the city was extended (on city {card.city_id})"
    if routed.samples < spec.samples:
        yield f"time limit {spec.time_limit:g} s: {routed.samples:,} of {spec.samples:,} samples were drawn"
    if spec.limits.given:
        longest = length_text(longest_route(planned.city, solution), planned.city.unit)
        yield f"the routes satisfy {limits_text(spec.limits)}; the longest is {longest}"
    if other and not planned.city.symmetric:
        yield f"compared with {other.label}, because HGS supports symmetric costs only"
