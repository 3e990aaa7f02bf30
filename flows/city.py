"""Flow `city`: the addresses to serve, made or imported once."""

from __future__ import annotations

from typing import Annotated

from prefect import task

from mcvrp.flows.config.parameters import StoreUri, shown
from mcvrp.flows.figures import CitySummary, city_figures
from mcvrp.flows.server.artifacts import city_markdown, links, show_figures, showing_steps
from mcvrp.flows.server.stage import HOUR, clock, open_store, resuming_task_options, stage
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import CitySpec, make_city


@task(name="make city", task_run_name="make city {spec.name}", **resuming_task_options())
def make(store: Store, spec: CitySpec) -> CitySummary:
    """Make the city of ``spec``, or check that it is the one in the store."""
    with showing_steps(f"city {spec.name}", 1) as begin, clock() as measured:
        begin("addresses, costs, card")
        made = make_city(store, spec)
    summary = CitySummary.of(spec.name, made, measured.seconds)
    places = {"the city": layout.city_dir(spec.name), "its card": layout.city_readme(spec.name)}
    body = city_markdown(store, spec.name), links(store, places)
    show_figures(f"city {spec.name}", f"City {spec.name}", city_figures(summary), *body)
    return summary


@stage("city", "city {city.title}", timeout=HOUR)
def city(
    city: Annotated[CitySpec, shown("City", "Synthetic city, imported addresses, or a city to extend")],
    store: StoreUri = None,
) -> CitySummary:
    """Make a synthetic city, import one from a file of addresses, or extend one that is there.

    Parameters
    ----------
    city
        Name and source; customers and seed of a synthetic city; the file of addresses of another.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    return make(open_store(store), city)
