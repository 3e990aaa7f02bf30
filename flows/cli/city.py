"""`mcvrp city create`, `import` and `extend`."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

from mcvrp.flows.cli.app import (
    Columns,
    Common,
    Number,
    Outcome,
    Range,
    Sheet,
    Text,
    Unrounded,
    WithPreset,
    arg,
    command,
    flag,
    group,
    opt,
)
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout

if TYPE_CHECKING:
    from mcvrp.tasks.city.spec import CitySpec

cities = group("city", "create, import, extend, change or remove a city")


@dataclass(frozen=True, kw_only=True)
class NewAddresses:
    """Addresses and their costs, for `mcvrp city import` and `extend`."""

    file: Annotated[str, arg("FILE", "addresses; store:PATH for a file in the store")]
    matrix: Annotated[Text, opt("FILE", "travel costs: .npy, or a table with from, to, cost")] = None
    spare: Annotated[Number, opt("K", "output classes reserved for future addresses")] = None
    roads: Annotated[Text, opt("URL|EXTRACT", "travel costs along roads: OSRM server, or .osm.pbf")] = None
    by: Annotated[Text, opt("time|distance", "costs along roads: seconds (default), or metres")] = None
    profile: Annotated[Text, opt("NAME", "of an extract: car (default), bicycle, foot, or a .lua")] = None
    snap: Annotated[float | None, opt("METRES", "largest distance to a road (default: 300)")] = None
    leave_out: Annotated[bool, flag("--leave-out", "leave out addresses that no road connects")] = False
    columns: Columns = field(default_factory=list)
    sheet: Sheet = None
    dates: Annotated[Text, opt("day-first|month-first", "order of day and month in dates: 02/11/2026")] = None


@command(cities, STAGES["city"].text)
def create(common: WithPreset) -> Outcome:
    from mcvrp.flows.cli.stage import spec_of

    return _made(common, spec_of(common).city)


@command(cities, "import addresses as a city: CSV, Excel, Parquet, or a CVRPLIB .vrp", "import")
def import_(
    common: Common,
    new: NewAddresses,
    name: Annotated[Text, opt(None, "name of the city (default: the file's)")] = None,
    depot: Annotated[Text, opt("ID", "id of the depot (default: the row with depot = 1)")] = None,
    unit: Annotated[Text, opt(None, "unit of a cost of 1 (default: m); for lat, lon: m, km or mi")] = None,
    demand: Annotated[Range, opt("LO HI", "range of demands (default: the paper's)")] = None,
    capacity: Annotated[Range, opt("LO HI", "range of capacities (default: the paper's)")] = None,
    unrounded: Unrounded = False,
) -> Outcome:
    stem = PurePath(new.file.split(":")[-1]).stem
    own = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "city"
    fields = {"depot": depot, "unit": unit, "demand": demand, "capacity": capacity}
    return _made(common, _spec(name or own, new, fields | {"unrounded": unrounded or None}))


@command(cities, "add addresses to a city; its labels and models stay valid")
def extend(
    common: Common,
    city: Annotated[str, arg("CITY", "name of the city")],
    new: NewAddresses,
    name: Annotated[str, opt(None, "name of the new city")],
) -> Outcome:
    return _made(common, _spec(name, new, {"extends": layout.checked_name("city", city)}))


def _spec(name: str, new: NewAddresses, fields: dict[str, Any]) -> CitySpec:
    from mcvrp.flows.cli.output import named_columns
    from mcvrp.flows.config.validation import checked
    from mcvrp.tasks.city.spec import CitySpec

    roads = {"by": new.by, "profile": new.profile, "snap": new.snap, "leave_out": new.leave_out or None}
    roads = {field: value for field, value in roads.items() if value is not None}
    if roads and not new.roads:
        raise McvrpError(f"--{next(iter(roads)).replace('_', '-')} needs roads: give --roads URL or EXTRACT")
    given = {
        "file": new.file,
        "matrix": new.matrix,
        "roads": {"source": new.roads, **roads} if new.roads else None,
        "spare": new.spare,
        "columns": named_columns(new.columns) or None,
        "sheet": new.sheet,
        "dates": new.dates,
        **fields,
    }
    addresses = {field: value for field, value in given.items() if value is not None}
    return checked(CitySpec, {"name": name, "source": "imported", "addresses": addresses})


def _made(common: Common, spec: CitySpec) -> Outcome:
    from mcvrp.flows.cli.output import aligned, plain, writing
    from mcvrp.flows.config.settings import cache_dir
    from mcvrp.flows.figures import CitySummary, city_figures
    from mcvrp.tasks.city.make import make_city

    store, began = writing(common), time.monotonic()
    summary = CitySummary.of(spec.name, make_city(store, spec, cache_dir()), time.monotonic() - began)
    folder = store.url(layout.city_dir(spec.name))
    return Outcome(plain(summary), aligned({**city_figures(summary), "folder": folder}))
