"""Flow `nightly`: fresh routes in, the champion tuned, its successor promoted or not."""

from __future__ import annotations

import datetime
from typing import Annotated

from prefect import task

from mcvrp.flows.config import settings
from mcvrp.flows.config.parameters import CityName, StoreUri, shown
from mcvrp.flows.config.preflight import check_trial, preflight
from mcvrp.flows.figures import night_figures, night_tables
from mcvrp.flows.server.artifacts import links, show_figures, showing_progress, trial_body
from mcvrp.flows.server.stage import DAY, open_store, resuming_task_options, stage
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.nightly import NightSummary, run_night
from mcvrp.tasks.retrain.spec import NightlySpec


@task(name="retrain", task_run_name="retrain {spec.model}", **resuming_task_options())
def retrain(store: Store, city: StoredCity, spec: NightlySpec) -> NightSummary:
    """Do the night's work, or what is left of it."""
    with showing_progress(f"nightly {spec.model}"):
        return run_night(
            store,
            city.name,
            city.city,
            {name: node for node, name in enumerate(city.addresses.ids)},
            spec,
            settings.cache_dir(),
            today=datetime.date.today(),
        )


@stage("nightly", "night of {nightly.model}", timeout=DAY)
def nightly(
    city: CityName,
    nightly: Annotated[NightlySpec, shown("Night", "Driven routes, fine-tuning, comparison, promotion")],
    store: StoreUri = None,
) -> NightSummary:
    """Take fresh routes, tune the champion on them, compare, and promote or say why not.

    Parameters
    ----------
    city
        Name of the city in the store.
    nightly
        Where routes come from, how the champion is tuned, when another is promoted.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    there = open_store(store)
    read = preflight(check_trial, there, city, nightly)
    done = retrain(there, read, nightly)
    if done.record and done.new:
        body = trial_body(there, nightly.model, done.record, [night_tables(done)])
    else:
        body = links(there, {"what was driven": layout.driven_dir(city)})
    show_figures(f"nightly {nightly.model}", f"Night of {nightly.model}", night_figures(done), body)
    return done
