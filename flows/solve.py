"""Flow `solve`: routes a day's orders; files go to the store, figures and a map to the Prefect UI."""

from __future__ import annotations

import datetime
import time
from typing import Annotated

from pydantic import Field

from mcvrp.flows.config import settings
from mcvrp.flows.config.inputs import open_store
from mcvrp.flows.config.validation import CityName, StoreUri, shown
from mcvrp.flows.server.artifacts import album, links, show_figures, show_table, showing_progress
from mcvrp.flows.server.stage import DAY, HOUR, stage, task
from mcvrp.model.errors import brief
from mcvrp.storage import layout
from mcvrp.storage.markdown import escaped
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.files.file_bytes import is_pasted
from mcvrp.tasks.solve.day import Solved, solve_day
from mcvrp.tasks.solve.outputs import (
    Place,
    day_name,
    require_free,
    route_table,
    solve_figures,
    stop_table,
    write_day,
)
from mcvrp.tasks.solve.plan import Planned, Request, plan_day
from mcvrp.tasks.solve.spec import DecodingSpec, LimitsSpec, Order, SearchSpec, SolveSpec
from mcvrp.tasks.solve.streets import on_streets
from mcvrp.tasks.support.registry import InStore
from mcvrp.tasks.support.text import unit_text


@task("route", "route {planned.day.instance.n} customers")
def route(store: Store, planned: Planned, began: float) -> Solved:
    """Route the orders: the model and searches beside each other; the cheapest routes are kept."""
    with showing_progress(f"solve {planned.city_name}", resumes=False):
        return on_streets(solve_day(store, planned, began), settings.cache_dir())


@task("write routes", "write {place.folder}")
def write(place: Place, solved: Solved) -> None:
    """Write the files to the store; show figures, map and route table."""
    write_day(place, solved)
    planned, subject = solved.planned, f"solve {solved.planned.city_name}"
    shared = "map.html", "routes.xlsx", "routes.csv", "routes.geojson", "README.md"
    files = {file: place.path(file) for file in shared}
    notes = "\n".join(f"- {escaped(note)}" for note in solved.notes)
    shown = album(place.store, {"The routes": place.path("map.png")})
    body = shown, notes, route_table(solved), links(place.store, files)
    figures = solve_figures(solved)
    show_figures(subject, f"Routes of {planned.day.source}", figures, *body)
    unit = {"cumulative_cost": f"cumulative_cost ({unit_text(planned.city.unit)})"}
    stops = stop_table(solved).drop(columns=_WITHOUT, errors="ignore").rename(columns=unit)
    show_table(f"{subject} stops", f"All stops of {planned.day.source}", stops)


City = Annotated[
    CityName | None, shown("City", "Name of the city in the store; choose None for a .vrp, which has its own")
]
Model = Annotated[
    Annotated[str, InStore("models")] | None,
    shown("Model", "Name of the model in the store; None: the city's, if it has one; samples 0: no model"),
]
Orders = Annotated[
    str | list[Order],
    shown(
        "Orders",
        "Text: a file in the store, such as orders/monday.csv or a CVRPLIB .vrp, or the lines of a table, "
        "pasted with its header, such as customer,demand,capacity (customers of a synthetic city are "
        "1, 2, …); list: orders as JSON",
    ),
]
Capacity = Annotated[
    Annotated[int, Field(ge=1)] | None,
    shown(
        "Capacity",
        "Capacity of a vehicle, in units of demand; empty: that of the orders, or the city's only one",
    ),
]
Limits = Annotated[LimitsSpec, shown("Limits", "Fleet, and limits and times of the routes")]
Search = Annotated[SearchSpec, shown("Search", "Solvers, version of the model, time limit, columns")]
Decoding = Annotated[DecodingSpec, shown("Decoding", "Samples of the model")]
Keep = Annotated[
    str | None,
    shown(
        "Keep",
        "Decided routes: a file in the store with columns as routes.csv, and perhaps kept",
    ),
]
Unrounded = Annotated[bool, shown("Unrounded", "Do not round the EUC_2D costs of a .vrp to integers")]
Date = Annotated[
    datetime.date | None,
    shown(
        "Date",
        "Date of the day: its orders, if a file has several days; routes.csv is then a file for incoming/",
    ),
]
_LIMITS, _SEARCH, _DECODING = LimitsSpec(), SearchSpec(), DecodingSpec()
# Columns of routes.csv that the table of the page, which is narrow, leaves out.
_WITHOUT = ["date", "capacity", "leg_cost", "x", "y", "lat", "lon"]
_MOST_NAME = 80  # characters of orders in the name of a run


def _run_name(city: str | None, orders: object, date: datetime.date | None, **_: object) -> str:
    file = orders.rpartition("/")[2] if isinstance(orders, str) and not is_pasted(orders) else "pasted orders"
    where, day = f"{city}: " if city else "", f", {date}" if date else ""
    return f"{where}{brief(file, _MOST_NAME)}{day}"


@stage("solve", _run_name, timeout=DAY + HOUR)
def solve(
    orders: Orders,
    city: City,
    capacity: Capacity = None,
    limits: Limits = _LIMITS,
    date: Date = None,
    model: Model = None,
    search: Search = _SEARCH,
    keep: Keep = None,
    unrounded: Unrounded = False,
    decoding: Decoding = _DECODING,
    store: StoreUri = None,
) -> Solved:
    """Route a day's orders.

    Files are CSV, Excel or Parquet with the columns customer and demand, on this machine, at s3:// addresses,
    or in the store (store:PATH). In a deployed run, relative paths are in the store.
    """
    began, opened = time.monotonic(), open_store(store)
    usual = None if is_vrp(orders) and not city else ""  # a .vrp has a city of its own, and no model
    request = Request(orders, city, model, capacity, keep, date, unrounded, usual)
    spec = limits.model_dump() | search.model_dump() | decoding.model_dump()
    planned = plan_day(opened, request, SolveSpec(**spec))
    place = Place(opened, layout.solution_dir(day_name(planned)))
    require_free(place, planned, overwrite=True)  # its name is the orders' own
    solved = route(opened, planned, began)
    write(place, solved)
    return solved
