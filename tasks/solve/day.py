"""Stage that routes a day: checks everything that can be wrong, then solves, then says how it went.

What takes long to import is imported once the orders are known to be good.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, stored_city
from mcvrp.storage.models.models import ModelCard, folder_card, load_model, model_card
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import VrpFile, is_vrp, read_vrp
from mcvrp.tasks.solve.limits import limits_text, require_kept, require_possible
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.start import Start, read_start
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import SolverFailed, longest_route
from mcvrp.tasks.support.text import length_text, listed

if TYPE_CHECKING:
    from mcvrp.model.problem import Solution
    from mcvrp.tasks.solve.search import Baseline, Routed

_MENTIONED = 5  # merged customers that are named


@dataclass(frozen=True)
class Planned:
    """A day that can be solved: its orders on their city, and the model that is going to route them.

    ``card`` is None where a search does it without a model; ``vrp`` is the file of CVRPLIB that the orders
    come from, if they do; ``start`` are earlier routes to begin with, if any.
    """

    city_name: str
    city: City
    addresses: Addresses
    day: Day
    card: ModelCard | None
    spec: SolveSpec
    folder: Store | None = None  # where the model lies if not in the store
    vrp: VrpFile | None = None
    start: Start | None = None

    @property
    def digest(self) -> str:
        """Equal for equal orders: same city, customers, demands and capacity."""
        instance = self.day.instance
        content = hashlib.sha256(f"{instance.city_id} {instance.capacity}".encode())
        content.update(instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes())
        return content.hexdigest()[:8]


@dataclass(frozen=True)
class Compared:
    """The same day by HGS (or PyVRP) alone; ``gap`` says by how many per cent the routes cost more."""

    label: str
    configuration: str
    cost: float
    gap: float
    routes: int


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of a day's steps; ``start_up`` is everything before the model got the orders."""

    start_up: float
    decoding: float
    polishing: float
    comparing: float


@dataclass(frozen=True)
class SolveSummary:
    """Summary of a routed day; costs in the city's unit, ``utilisation`` is load over what vehicles hold.

    ``model``, its version and ``best_sample`` are None without a model, ``best_known`` is the cost of the
    solution that lies beside an instance of CVRPLIB.
    """

    orders: str
    digest: str
    city: str
    city_id: str
    unit: str
    model: str | None
    model_version: int | None
    lines: int
    customers: int
    demand: int
    capacity: int
    routes: int
    utilisation: float
    cost: float
    samples: int
    best_sample: float | None
    polish: str
    device: str
    compared: Compared | None
    seconds: Seconds
    notes: tuple[str, ...]
    best_known: float | None = None


@dataclass(frozen=True)
class Solved:
    """A routed day: what there is to say, and the routes."""

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
    """Return the day that is asked for, nothing solved yet.

    Parameters
    ----------
    city, model
        Their names in the store; of a model that was exported, its folder. The city may be None for an
        instance of CVRPLIB, which is one itself; no model is looked for where ``spec`` asks for no samples.
    orders
        As `tasks.solve.orders.read_orders` takes them, or an instance of CVRPLIB.
    capacity
        What a vehicle holds, None where the orders or the city say it.
    unrounded
        Of an instance of CVRPLIB: as `read_vrp` takes it.
    start
        Earlier routes to begin with, as `tasks.solve.start.read_start` takes them.

    Raises
    ------
    McvrpError
        If there is no such city, model or version, the model is another city's, the orders are wrong, or
        no routes can keep the limits of ``spec``, or nobody that it names would.
    """
    vrp = read_vrp(store, orders, unrounded=unrounded) if is_vrp(orders) else None
    require_kept(spec)
    if city is None:
        if not vrp:
            raise McvrpError(
                "city is missing: name one, as only orders that are an instance of CVRPLIB (.vrp) need none"
            )
        city = PurePath(vrp.name).stem
        there, addresses = vrp.city, Addresses.numbered(vrp.city.customers)
    else:
        stored = stored_city(store, city)
        there, addresses = stored.city, stored.addresses
        if vrp and vrp.city.city_id != there.city_id:
            raise McvrpError(f"city {city!r} is not that of {vrp.name}, which is one itself: name no city")
    table = vrp.orders if vrp else read_orders(orders, store)
    day = checked_day(table, there, addresses, city, capacity)
    require_possible(spec.limits, there, addresses, day.instance)
    if finisher := SOLVERS.get(spec.polish):
        finisher.require_costs(there, "polish with pyvrp")
    folder = model if isinstance(model, Store) else None
    card = None
    if spec.samples:
        card = folder_card(folder) if folder else chosen_model(store, str(model), spec.version)
        card.require_city(there)
    begin = read_start(store, start, there, addresses, day.instance) if start else None
    return Planned(city, there, addresses, day, card, spec, folder, vrp, begin)


def chosen_model(store: Store, name: str, version: int | str | None) -> ModelCard:
    """Return the card of a version of ``name``: without a word its champion, where there is none the latest.

    Raises
    ------
    McvrpError
        If there is no such model or version.
    """
    if version is None and pointer(store, name, "champion").version is not None:
        version = "champion"
    return model_card(store, name, None if version == "latest" else version)  # type: ignore[arg-type]


def solve_day(store: Store, planned: Planned, began: float) -> Solved:
    """Return the routes of a day.

    Parameters
    ----------
    began
        When, by `time.monotonic`, whoever waits for them began to wait.
    """
    from mcvrp.tasks.solve.search import baseline, searched, usual_search

    spec, city, instance = planned.spec, planned.city, planned.day.instance
    if planned.card is None:
        start_up = time.monotonic() - began
        routed = searched(city, instance, spec, planned.start.solution if planned.start else None)
    else:
        start_up, routed = _routed_by_model(store, planned, planned.card, began)
    other, failure = None, ""
    # a search from nothing is not compared with itself
    if spec.hgs and (planned.card or planned.start or routed.polish != usual_search(city)):
        try:
            other = baseline(city, instance, routed.fair, spec.seed, spec.limits)
        except SolverFailed as error:  # the routes are good without a comparison
            failure = f"nothing to compare with: {error}"
    seconds = Seconds(start_up, routed.decoding, routed.polishing, other.seconds if other else 0.0)
    notes = [*_notes(planned, routed, other), *([failure] if failure else [])]
    return Solved(planned, routed.solution, _summary(planned, routed, other, seconds, notes))


def _routed_by_model(store: Store, planned: Planned, card: ModelCard, began: float) -> tuple[float, Routed]:
    """Return the seconds until the model was there, and its routes."""
    import torch

    from mcvrp.tasks.solve.search import route

    folder = planned.folder
    network, _ = load_model(folder.uri) if folder else load_model(store, card.name, card.version)
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    start_up = time.monotonic() - began
    rotations = planned.spec.rotations if card.rotation_trained else 1
    begin = planned.start.solution if planned.start else None
    city, instance, spec = planned.city, planned.day.instance, planned.spec
    return start_up, route(network, city, instance, spec, rotations=rotations, start=begin)


def _summary(
    planned: Planned, routed: Routed, other: Baseline | None, seconds: Seconds, notes: Sequence[str]
) -> SolveSummary:
    day, instance, card = planned.day, planned.day.instance, planned.card
    demand, routes = int(instance.demands.sum()), len(routed.solution.routes)
    compared = None
    if other:
        compared = Compared(
            other.label,
            other.configuration,
            other.cost,
            other.gap(routed),
            len(other.solution.routes),
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
        cost=routed.cost,
        samples=routed.samples,
        best_sample=routed.sampled,
        polish=routed.polish,
        device=routed.device,
        compared=compared,
        seconds=seconds,
        notes=tuple(notes),
        best_known=planned.vrp.best.cost if planned.vrp and planned.vrp.best else None,
    )


def _notes(planned: Planned, routed: Routed, other: Baseline | None) -> Iterator[str]:
    """Yield what a person should know before trusting the routes, a sentence each."""
    day, card, spec = planned.day, planned.card, planned.spec
    yield from day.notes
    if planned.start:
        yield f"begun with {planned.start.note}"
    for merged in day.merged[:_MENTIONED]:
        yield f"{merged.orders} orders of customer {merged.customer!r} merged into one of {merged.demand:,}"
    if len(day.merged) > _MENTIONED:
        yield f"orders of {len(day.merged) - _MENTIONED:,} more customers merged, one delivery each"
    if day.ignored:
        yield f"column{'s' if len(day.ignored) > 1 else ''} not used: {listed(day.ignored)}"
    n = day.instance.n
    if card and card.smallest and card.largest and not card.smallest <= n <= card.largest:
        yield (
            f"the model was trained on days of {card.smallest} to {card.largest} customers and this one has "
            f"{n}: it may do worse than it did there"
        )
    if card and card.city_id != planned.city.city_id:
        yield f"the model was trained before the city was extended (on city {card.city_id})"
    if routed.samples < spec.samples:
        yield (
            f"{routed.samples:,} of {spec.samples:,} samples fitted into the time limit of "
            f"{spec.time_limit:g} s"
        )
    if spec.limits.given:
        longest = length_text(longest_route(planned.city, routed.solution), planned.city.unit)
        yield f"the routes keep {limits_text(spec.limits)}; the longest is {longest}"
    if other and not planned.city.symmetric:
        yield (
            f"HGS takes symmetric costs only and the city's depend on the direction: {other.label} "
            "is what the routes are compared with"
        )
