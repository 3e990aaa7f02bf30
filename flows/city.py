"""Flow `city`: the addresses to serve, made once."""

from __future__ import annotations

from prefect import flow, task

from flows.artifacts import show_figures
from flows.stages import clock, flow_options, open_store, task_options
from flows.summary import CitySummary, city_figures
from storage.store import Store
from tasks.city import CitySpec, make_city


@task(name="make city", task_run_name="make city {spec.name}", **task_options())
def make(store: Store, spec: CitySpec) -> CitySummary:
    """Make the city of ``spec``, or check that it is the one in the store."""
    with clock() as measured:
        made = make_city(store, spec)
    summary = CitySummary(spec.name, made.city_id, made.customers, measured.seconds)
    show_figures("city", f"City {spec.name}", city_figures(summary))
    return summary


@flow(name="city", flow_run_name="city {city.name}, {city.customers} customers", **flow_options())
def city(city: CitySpec, store: str | None = None) -> CitySummary:
    """Make a synthetic city, uniform on the unit square.

    Parameters
    ----------
    city
        Name, number of customers, seed.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    return make(open_store(store), city)
