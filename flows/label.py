"""Flow `label`: solves the instances of a dataset that have no labels yet."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

from mcvrp.flows.config.inputs import inputs
from mcvrp.flows.config.preflight import check_labels
from mcvrp.flows.config.validation import CityName, StoreUri, shown
from mcvrp.flows.figures import label_figures
from mcvrp.flows.server.artifacts import links, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, stage, task
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, LabelSummary, label_missing, labels_missing
from mcvrp.tasks.support.ray_session import ray_session


# A hyphen: the font of the timeline in Prefect's UI has no dash.
@task("solve", "solve {spec.dataset} n={spec.smallest}-{spec.largest}")
def solve(store: Store, city: City, spec: LabelSpec) -> LabelSummary:
    """Create the missing labels of the dataset; Ray spreads the work over cores, not Prefect."""
    with showing_progress(f"label {spec.dataset}"):
        summary = label_missing(store, city, spec)
    title = f"Labels {spec.dataset}, n = {spec.smallest} to {spec.largest}"
    paths = {"the dataset": layout.label_dir(spec.dataset), "its card": layout.card(spec.dataset)}
    show_figures(f"label {spec.dataset}", title, label_figures(summary), links(store, paths))
    return summary


@stage(
    "label",
    "label {label.dataset} n={label.smallest}-{label.largest}, {label.partitions} partitions",
    timeout=30 * DAY,
)
def label(
    city: CityName,
    label: Annotated[LabelSpec, shown("Labels", "Dataset: sizes, instances, solver and budget")],
    store: StoreUri = None,
) -> LabelSummary:
    """Create the missing labels of a dataset and of its held-out set."""
    opened, read = inputs(check_labels, store, city, label)
    dataset, *others = label.datasets
    missing = any(labels_missing(opened, read.city, part) for part in label.datasets)
    # One session for all of them: to start Ray on this machine takes 5 s of a core.
    with ray_session(label.workers) if missing else nullcontext():
        summary = solve(opened, read.city, dataset)
        for spec in others:
            summary = replace(summary, held_out=solve(opened, read.city, spec))
    return summary
