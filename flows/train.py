"""Flow `train`: trains the phases of the curriculum in turn, one task each, and publishes the model."""

from __future__ import annotations

from typing import Annotated

from mcvrp.flows.config import settings
from mcvrp.flows.config.inputs import inputs
from mcvrp.flows.config.preflight import check_training
from mcvrp.flows.config.validation import CityName, StoreUri, shown
from mcvrp.flows.figures import phase_figures, train_figures
from mcvrp.flows.server.artifacts import album, links, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, stage, task
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.phases import PhaseSummary, TrainSummary, publish, train_phase
from mcvrp.tasks.train.spec import TrainSpec


@task("train phase", "train {phase}")
def train_one(store: Store, city: City, spec: TrainSpec, phase: str) -> PhaseSummary:
    """Train ``phase`` to its end, from its last checkpoint or the result of the previous phase."""
    subject = f"train {spec.run} {phase}"
    with showing_progress(subject):
        summary = train_phase(store, city, spec, phase, settings.cache_dir())
    paths = {"the phase": layout.phase_dir(spec.run, phase), "the run's card": layout.run_card(spec.run)}
    body = album(store, {"Losses": layout.run_losses(spec.run)}), links(store, paths)
    show_figures(subject, f"Phase {phase} of run {spec.run}", phase_figures(summary), *body)
    return summary


publish_model = task("publish model", "publish model {spec.model}")(publish)


@stage("train", "train {train.run} on labels {train.dataset}", timeout=60 * DAY)
def train(
    city: CityName,
    train: Annotated[TrainSpec, shown("Training", "Dataset, network, phases, batches, ranks")],
    store: StoreUri = None,
) -> TrainSummary:
    """Train all phases, resuming from the last checkpoint, and publish the model."""
    opened, read = inputs(check_training, store, city, train)
    phases = tuple(train_one(opened, read.city, train, phase.name) for phase in train.phases)
    summary = TrainSummary(train.run, phases, publish_model(opened, train, read))
    curve = album(opened, {"Losses": layout.run_losses(train.run)})
    paths = {
        "the model": layout.model_dir(summary.model.name, summary.model.version),
        "the run": layout.run_dir(train.run),
        "its card": layout.run_card(train.run),
    }
    body = curve, links(opened, paths)
    show_figures(f"train {train.run}", f"Training run {train.run}", train_figures(summary), *body)
    return summary
