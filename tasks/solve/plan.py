"""Plan of a day: all input is read and checked, and nothing is solved yet.

Heavy imports happen after the orders have been checked.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Solution
from mcvrp.storage.cities import Addresses, RoadFacts, city_names, stored_city
from mcvrp.storage.models.models import ModelCard, chosen_model, versions
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.osrm_server import sha256_of
from mcvrp.tasks.files.cvrplib import VrpFile, is_vrp, read_vrp
from mcvrp.tasks.files.file_bytes import local_path
from mcvrp.tasks.solve.kept import Kept, Rest, read_kept, rest_of
from mcvrp.tasks.solve.limits import limits_text, require_supported
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders, require_file_of_routes
from mcvrp.tasks.solve.spec import MODEL, Order, SolveSpec
from mcvrp.tasks.solve.unserved import require_possible
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.support.text import listed


@dataclass(frozen=True)
class Request:
    """What somebody asks for: the routes of a day's orders.

    Parameters
    ----------
    orders
        CVRPLIB instance (``unrounded``: see `read_vrp`), or orders, see `read_orders`.
    city, model
        Names in the store, or a city. The city may be None for a CVRPLIB instance, or if the store has one.
    capacity
        Of a vehicle, None if the orders or the city define it.
    keep
        File of decided routes, see `read_kept`.
    date
        Of the day, whose rows are read if files have several days: routes.csv then has it, as files of driven
        routes need.
    usual_model
        Model to use if ``model`` is None and it is one of the city; otherwise the city's only one is used,
        and without any the day is searched without a model.
    roads
        Address of an OSRM server, or the extract of the city's costs, to draw routes along its streets, if
        neither its server nor what was made of the extract is there.
    """

    orders: str | pd.DataFrame | Sequence[Order]
    city: str | City | None = None
    model: str | None = None
    capacity: int | None = None
    keep: str | None = None
    date: datetime.date | None = None
    unrounded: bool = False
    usual_model: str | None = None
    roads: str | None = None


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
    rest: Rest | None  # what is to be planned, None if all is decided
    digest: str  # hash of city, customers, demands and capacity, also of customers who are left out later
    vrp: VrpFile | None = None  # CVRPLIB file of the orders, if any
    kept: Kept | None = None  # file of decided routes, if any
    without_model: str = ""  # reason for which no model of the city is used, if one was looked for
    roads: RoadFacts | None = None  # where the city's costs come from, if they are those of roads

    @property
    def date(self) -> datetime.date | None:
        """Date of the day, for files that are ingested after it was driven."""
        return self.request.date

    @property
    def decided(self) -> Solution:
        """The routes that are kept."""
        return Solution(self.kept.routes if self.kept else ())

    @property
    def limits(self) -> str:
        """The limits of the day in words."""
        return limits_text(self.spec.limits, self.city.unit)


def plan_day(store: Store, request: Request, spec: SolveSpec) -> Planned:
    """Return the checked plan of a day; nothing is solved.

    Raises McvrpError if city and model do not exist or do not match, the orders are invalid, or the limits
    are infeasible.
    """
    require_file_of_routes(spec.columns, request.keep)
    orders, date = request.orders, request.date
    vrp = read_vrp(store, orders, unrounded=request.unrounded) if is_vrp(orders) else None
    if request.unrounded and not vrp:
        raise McvrpError("--unrounded is for the lengths of a .vrp: omit it")
    name, problem, addresses, roads = _city(store, request.city, vrp)
    _require_roads(request.roads, roads, name)
    if spec.sheet is not None and (vrp or not isinstance(orders, str)):
        raise McvrpError("--sheet is for orders in a workbook: omit it")
    spec = spec.in_unit(problem.unit)
    require_supported(spec, problem, name)
    table = vrp.orders if vrp else read_orders(orders, store, spec.sheet)
    day = checked_day(table, problem, addresses, name, request.capacity, spec, date)
    # a file of routes has the names of the day; those of the city stay: nights read its routes.csv by them
    named = replace(addresses, columns={**addresses.columns, **spec.columns})
    decided = None
    if request.keep:
        decided = read_kept(store, request.keep, named, day.instance, date, name)
    limits = spec.limits if spec.shift is None else replace(spec.limits, service=day.wishes.service)
    rest = rest_of(decided, problem, day.instance, limits, drop=spec.drop)
    if rest and not spec.drop:
        kept = len(decided.routes) if decided else 0
        require_possible(rest, limits_text(limits, problem.unit), addresses, kept)
    if search := SOLVERS.get(spec.by):
        search.require_costs(problem)
    card, without = _card(store, request, spec, problem, name)
    digest = _digest(day)
    return Planned(
        request, name, problem, addresses, day, card, spec, rest, digest, vrp, decided, without, roads
    )


def _card(
    store: Store, request: Request, spec: SolveSpec, city: City, name: str
) -> tuple[ModelCard | None, str]:
    """Return the card of the model of the city ``name``, None without one, and why none was found."""
    model, without = request.model, ""
    if not spec.with_model:
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
        if spec.version is not None:
            raise McvrpError(
                f"--version {spec.version} is of a model, and none searches: name one, or omit it"
            )
        # where models are used, one may be missed
        return None, without if without and store.folders("models") else ""
    card = chosen_model(store, model, spec.version)
    try:
        card.require_city(city, name)
    except McvrpError as error:
        raise McvrpError(f"{error}; use --samples 0 to search without one") from error
    return card, without


def _digest(day: Day) -> str:
    instance, large = day.instance, np.array(list(day.oversized.items()), "<u8")
    content = hashlib.sha256(f"{instance.city_id} {instance.capacity}".encode())
    content.update(instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes())
    content.update(large.tobytes())
    return content.hexdigest()[:8]


def _city(
    store: Store, name: str | City | None, vrp: VrpFile | None
) -> tuple[str, City, Addresses, RoadFacts | None]:
    if isinstance(name, City):
        return "city", name, Addresses(tuple(name.ids_of(range(len(name.xy))))), None
    if name is None and vrp:
        return PurePath(vrp.name).stem, vrp.city, Addresses.numbered(vrp.city.customers), None
    if name is None:
        if not (names := city_names(store)):
            raise McvrpError(f"{store.url()} has no city: import one (mcvrp city import)")
        if len(names) > 1:
            cities = listed(names, most=20)
            raise McvrpError(f"{store.url()} has several cities, {cities}: name one by --city")
        [name] = names
    stored = stored_city(store, name)
    if vrp and vrp.city.city_id != stored.city.city_id:
        raise McvrpError(f"city {name!r} is not that of {vrp.name}, which has its own: leave the city out")
    return name, stored.city, stored.addresses, stored.roads


def _require_roads(roads: str | None, facts: RoadFacts | None, city: str) -> None:
    """Raise McvrpError if ``roads`` is an extract that the costs of ``city`` are not of."""
    if roads is None:
        return
    if facts is None:
        raise McvrpError(f"--roads {roads}: the costs of city {city!r} are not those of roads: omit it")
    if "://" not in roads and sha256_of(local_path(roads)) != facts.extract:
        raise McvrpError(f"--roads {roads}: the costs of city {city!r} are of {facts.source}: give that")


def model_of(store: Store, city: City, name: str, usual: str) -> tuple[str | None, str]:
    """Return the model of ``city``, called ``name``: ``usual`` if it is one, otherwise the only one.

    None, and the reason, if there is none. McvrpError if there are several.
    """
    models, reason = [], f"the store has no model of city {name!r}"
    for model in sorted(store.folders("models"), key=lambda each: (each != usual, each)):
        card = chosen_model(store, model, None) if versions(store, model) else None
        if card is None or not city.accepts(card.city_id):
            continue
        try:
            card.require_city(city, name)
        except McvrpError as error:  # it has too few output classes
            reason = str(error)
            continue
        if model == usual:
            return model, ""
        models.append(model)
    if len(models) > 1:
        raise McvrpError(f"city {name!r} has several models, {listed(models)}: name one by --model")
    return (models[0], "") if models else (None, reason)
