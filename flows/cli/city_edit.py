"""`mcvrp city set` and `remove`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated

from mcvrp.flows.cli.app import Columns, Common, Outcome, Range, Text, arg, command, opt
from mcvrp.flows.cli.city import cities
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout

CityArgument = Annotated[str, arg("CITY", "name of the city")]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Fields of a city that its id does not cover."""

    demand: Annotated[Range, opt("LO HI", "range of demands")] = None
    capacity: Annotated[Range, opt("LO HI", "range of capacities")] = None
    columns: Columns = field(default_factory=list)
    dates: Annotated[Text, opt("day-first|month-first", "order of day and month in dates: 02/11/2026")] = None


@command(
    cities,
    "change ranges and names of columns of a city; its labels and models stay valid",
    "set",
)
def set_(common: Common, city: CityArgument, changes: Changes) -> Outcome:
    from mcvrp.flows.cli.output import aligned, named_columns, plain, writing
    from mcvrp.flows.config.validation import checked
    from mcvrp.flows.figures import CitySummary, city_figures
    from mcvrp.storage.cities import stored_city
    from mcvrp.tasks.city.make import change_city
    from mcvrp.tasks.city.spec import AddressFile

    if not any(vars(changes).values()):
        raise McvrpError("nothing to change: give --demand, --capacity, --columns or --dates")
    store, began = writing(common), time.monotonic()
    stored = stored_city(store, layout.checked_name("city", city))
    fields = {
        "demand": changes.demand or stored.city.demand,
        "capacity": changes.capacity or stored.city.capacity,
        "columns": {**stored.addresses.columns, **named_columns(changes.columns)},
        "dates": changes.dates or stored.addresses.dates,
    }
    made = change_city(store, stored, checked(AddressFile, {"file": city, **fields}))
    summary = CitySummary.of(city, made, time.monotonic() - began)
    return Outcome(plain(summary), aligned(city_figures(summary)))


@command(cities, "remove a city that nothing in the store refers to")
def remove(common: Common, city: CityArgument) -> Outcome:
    from mcvrp.flows.cli.output import writing
    from mcvrp.tasks.city.make import remove_city

    store, name = writing(common), layout.checked_name("city", city)
    remove_city(store, name)
    return Outcome({"removed": name}, f"city {name} is removed from {store.url()}")
