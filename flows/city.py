"""Flow `city`: creates a city, the addresses to serve, or imports one."""

from __future__ import annotations

import time
from typing import Annotated

from mcvrp.flows.config import settings
from mcvrp.flows.config.inputs import open_store
from mcvrp.flows.config.validation import StoreUri, shown
from mcvrp.flows.figures import CitySummary, city_figures
from mcvrp.flows.server.artifacts import album, links, show_figures
from mcvrp.flows.server.stage import HOUR, stage, task
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import CitySpec, make_city


@task("make city", "make city {spec.name}")
def make(store: Store, spec: CitySpec) -> CitySummary:
    """Create the city of ``spec``, or check that the stored one is the same."""
    began = time.monotonic()
    made = make_city(store, spec, settings.cache_dir())
    summary = CitySummary.of(spec.name, made, time.monotonic() - began)
    paths = {"the city": layout.city_dir(spec.name), "its card": layout.city_readme(spec.name)}
    body = album(store, {"Map of the addresses": layout.city_map(spec.name)}), links(store, paths)
    show_figures(f"city {spec.name}", f"City {spec.name}", city_figures(summary), *body)
    return summary


@stage("city", "city {city.title}", timeout=HOUR)
def city(
    city: Annotated[CitySpec, shown("City", "Synthetic city, imported addresses, or a city to extend")],
    store: StoreUri = None,
) -> CitySummary:
    """Create a synthetic city, import one from a file of addresses, or extend an existing one."""
    return make(open_store(store), city)
