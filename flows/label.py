"""Flow `label`: every instance of a dataset solved, what is there already left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from prefect import task

from mcvrp.flows.config.parameters import CityName, StoreUri, shown
from mcvrp.flows.config.preflight import check_labels, preflight
from mcvrp.flows.figures import label_figures
from mcvrp.flows.server.artifacts import card_markdown, links, show_figures, showing_progress
from mcvrp.flows.server.stage import DAY, open_store, stage, task_options
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, LabelSummary, label_missing
from mcvrp.tasks.support.ray_session import kept_ray

# The timeline of Prefect's UI has no dash but the hyphen.
_HELD_OUT = "solve held-out n={spec.smallest}-{spec.largest}"


@task(name="solve", task_run_name="solve n={spec.smallest}-{spec.largest}", **task_options())
def solve(store: Store, city: City, spec: LabelSpec) -> LabelSummary:
    """Solve what is missing of the dataset; the cores are Ray's business, not Prefect's."""
    with showing_progress(f"label {spec.dataset}"):
        summary = label_missing(store, city, spec)
    title = f"Labels {spec.dataset}, n = {spec.smallest} to {spec.largest}"
    places = {"the dataset": layout.label_dir(spec.dataset), "its card": layout.card(spec.dataset)}
    body = card_markdown(store, spec.dataset), links(store, places)
    show_figures(f"label {spec.dataset}", title, label_figures(summary), *body)
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
    """Label a dataset, and its held-out set; running it again does only what is missing.

    Parameters
    ----------
    city
        Name of the city in the store.
    label
        Sizes, number of instances, solver and its budget.
    store
        Address of the store, by default $MCVRP_STORE, else ./store.
    """
    there = open_store(store)
    read = preflight(check_labels, there, city, label)
    dataset, *apart = label.datasets
    matrix = read.city.matrix
    with kept_ray(0 if matrix is None else matrix.nbytes):
        summary = solve(there, read.city, dataset)
        for spec in apart:
            held_out = solve.with_options(task_run_name=_HELD_OUT)(there, read.city, spec)
            summary = replace(summary, held_out=held_out)
    return summary
