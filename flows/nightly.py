"""Flow `nightly`: ingests driven routes, fine-tunes the champion on them, and promotes it if it is better."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from mcvrp.flows.config import settings
from mcvrp.flows.config.inputs import inputs
from mcvrp.flows.config.validation import CityName, StoreUri, shown
from mcvrp.flows.figures import night_figures, night_lacks, night_tables
from mcvrp.flows.server.artifacts import links, picture, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, stage, task
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.markdown import escaped
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.nightly import NightSummary, run_night
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.retrain.trial import check_trial
from mcvrp.tasks.retrain.week import week_figures, week_of, week_picture


@task("retrain", "retrain {spec.model}")
def retrain(store: Store, city: StoredCity, spec: NightlySpec) -> NightSummary:
    """Run the night, resuming it if it was interrupted."""
    with showing_progress(f"nightly {spec.model}"):
        return run_night(store, city, spec, settings.cache_dir(), today=datetime.date.today())


@stage("nightly", "night of {nightly.model}", timeout=DAY)
def nightly(
    city: CityName,
    nightly: Annotated[NightlySpec, shown("Night", "Driven routes, fine-tuning, comparison, promotion")],
    store: StoreUri = None,
) -> NightSummary:
    """Ingest driven routes, fine-tune the champion on them, compare, and promote it or report why not."""
    opened, read = inputs(check_trial, store, city, nightly)
    done = retrain(opened, read, nightly)
    paths = {"what was driven": layout.driven_dir(city)}
    if done.record:
        paths = {
            "night": layout.night_dir(nightly.model, done.record.name),
            "challenger": layout.model_dir(nightly.model, done.record.challenger),
        }
    lacks = "\n".join(f"- {escaped(line)}" for line in night_lacks(done).splitlines())
    body = lacks, night_tables(done), links(opened, paths)
    show_figures(f"nightly {nightly.model}", f"Night of {nightly.model}", night_figures(done), *body)
    show_week(opened, nightly.model, done.taken.refused)
    return done


def show_week(store: Store, model: str, refused: Sequence[str]) -> None:
    """Show the nights of the last week with a picture; ``refused`` has a sentence on each file to correct."""
    nights = week_of(store, model, datetime.datetime.now(datetime.UTC))
    shown = picture("Changes of the cost", week_picture(nights)) if nights else ""
    figures = week_figures(nights) | {"refused files of this night": "; ".join(refused) or "none"}
    show_figures(f"week {model}", f"Week of {model}", figures, shown)
