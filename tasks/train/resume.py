"""Resuming of a run: where a phase starts, and whether its checkpoints fit the spec."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range, Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import require_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.layout import phase_dir, trainer_lease
from mcvrp.storage.models.models import ModelCard, model_card, model_weights
from mcvrp.storage.provenance import made
from mcvrp.storage.store.lease import Lease, holding
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    latest_checkpoint,
    save_checkpoint,
)
from mcvrp.tasks.train.held_out import require_labels
from mcvrp.tasks.train.spec import BASE_PHASE, TrainSpec


def network_of(city: City, spec: TrainSpec) -> dict[str, Any]:
    """Return the fields of `model.network.NetworkConfig` of the network that the run trains."""
    return {"classes": city.classes, **spec.network.model_dump()}


def origin_of(city: City, spec: TrainSpec, name: str, rules: Rules, data: str, parent: str) -> Origin:
    """Return the origin of the phase ``name``: all that decides its result.

    ``rules`` see `order_rules`; ``data`` is the fingerprint of the labels, ``parent`` the checksum of the
    initial weights.
    """
    recipe = dict(spec.recipe(name))
    if spec.phase(name).policy:  # ranges that it leaves open decide the result, too
        ranges = {"policy.demand": rules.demand, "policy.capacity": rules.capacity}
        recipe |= {field: None if value is None else list(value) for field, value in ranges.items()}
    return Origin(city.city_id, data, network_of(city, spec), recipe, parent)


def order_rules(store: Store, city: City, spec: TrainSpec, name: str) -> Rules:
    """Return the demand and capacity rules of the instances of a policy-gradient phase.

    Ranges that it leaves open are those of its labels, otherwise the city's, otherwise the paper's.
    """
    policy = spec.phase(name).policy
    if policy is None:
        return Rules()
    path = layout.label_spec(spec.dataset)
    document = store.get_json(path) if store.exists(path) else {}
    labelled = document if isinstance(document, dict) else {}
    demand, capacity = (_range(labelled.get(field)) for field in ("demand", "capacity"))
    return Rules.of(city, policy.demand or demand, policy.capacity or capacity)


def require_sizes(city: City, spec: TrainSpec) -> None:
    """Raise McvrpError if a phase has instances of more customers than ``city``."""
    for phase in spec.phases:
        if phase.last > city.customers:
            raise McvrpError(
                f"phase {phase.name!r} trains on {phase.last} customers, the city has {city.customers}: "
                "lower last of the phase"
            )


def require_rules(store: Store, city: City, spec: TrainSpec) -> None:
    """Raise McvrpError if a policy-gradient phase has no ranges to draw new instances of a size from."""
    for phase in spec.phases:
        if phase.policy is None or phase.policy.source == "labels":
            continue
        rules = order_rules(store, city, spec, phase.name)
        try:
            for n in spec.sizes(phase.name):
                rules.capacity_range(n)
        except McvrpError as error:
            raise McvrpError(f"phase {phase.name!r}: {error}") from error


def _range(value: object) -> Range | None:
    match value:
        case [int(low), int(high)]:
            return low, high
    return None


def starting_point(
    store: Store, labels: Dataset | None, city: City, spec: TrainSpec, name: str, rules: Rules
) -> tuple[CheckpointState | None, Origin]:
    """Return the checkpoint that the phase starts from, and the origin that its own ones record.

    It is the last checkpoint of the previous phase, or the base model; None for random weights. ``labels`` is
    None if the phase needs none.
    """
    index = spec.phases.index(spec.phase(name))
    previous = spec.phases[index - 1].name
    parent = finished(store, spec, previous, f"phase {name!r}") if index else _base(store, city, spec)
    data = labels.fingerprint() if labels else ""
    origin = origin_of(city, spec, name, rules, data, parent.weights_sha256 if parent else "")
    if parent:  # another phase: its network has to be ours, its recipe need not
        shared = Origin(
            parent.origin.city_id, origin.fingerprint, parent.origin.network, origin.recipe, origin.parent
        )
        check_origin(store, city, parent, origin, shared)
    return parent, origin


def base_card(store: Store, city: City, spec: TrainSpec) -> ModelCard | None:
    """Return the card of the model that the run fine-tunes, None if it starts from random weights.

    McvrpError if the model does not exist, is of another city, or has another network, up to the dropout.
    """
    if spec.base_version is None:
        return None
    try:
        card = model_card(store, *spec.base_version)
        card.require_city(city)
    except StoreError:
        raise
    except McvrpError as error:
        raise McvrpError(f"train.base = {spec.base}: {error}") from error
    networks = [dict(each) | {"dropout": 0.0} for each in (card.network, network_of(city, spec))]
    base, wanted = (Origin(city.city_id, "", network, {}, "") for network in networks)
    base.require(wanted, f"train.base {spec.base}", "use the network of the base")
    return card


def _base(store: Store, city: City, spec: TrainSpec) -> CheckpointState | None:
    """Return the base model as a finished phase of the run, None if it starts from random weights."""
    if (card := base_card(store, city, spec)) is None:
        return None
    stored = latest_checkpoint(store, spec.run, BASE_PHASE)
    if stored and stored.origin.parent == card.weights_sha256:
        return stored
    network = dict(card.network) | {"dropout": spec.network.dropout}
    origin = Origin(card.city_id, card.fingerprint, network, {}, card.weights_sha256)
    # A finished phase of one step, so that the first phase starts from it as from any previous phase.
    state = CheckpointState(
        spec.run, BASE_PHASE, 1, 1, 0, origin, card.metrics, provenance=made([card.as_parent])
    )
    weights = model_weights(store, card)
    with run_lease(store, spec) as lease:
        return save_checkpoint(store, state, weights, Moments({}, {}), confirm=lease.confirm)


def run_lease(store: Store, spec: TrainSpec) -> AbstractContextManager[Lease]:
    """Hold the lease on training the run; McvrpError if another process holds it."""
    return holding(store, trainer_lease(spec.run), f"run {spec.run!r} is being trained")


def finished(store: Store, spec: TrainSpec, name: str, needed_by: str) -> CheckpointState:
    """Return the last checkpoint of the phase ``name``; McvrpError if it is not finished."""
    state = latest_checkpoint(store, spec.run, name)
    if state is None or not state.complete:
        progress = f"is at step {state.step:,} of {state.steps:,}" if state else "has not started"
        raise McvrpError(
            f"{needed_by} needs the finished phase {name!r} of run {spec.run!r}, which {progress}: "
            f"run mcvrp train --phase {name}"
        )
    return state


def check_origin(
    store: Store, city: City, state: CheckpointState, wanted: Origin, actual: Origin | None = None
) -> None:
    """Raise McvrpError, with the first difference, if ``state`` is not of the origin ``wanted``.

    A checkpoint of a city that ``city`` extends is accepted.
    """
    hint = f"name the run differently or delete {store.url(phase_dir(state.run, state.phase))}"
    origin, phase = actual or state.origin, f"phase {state.phase!r} of run {state.run!r}"
    require_city(store, city, origin.city_id, f"{phase} is", hint)
    origin.require(wanted, phase, hint)


def label_counts(labels: Dataset, city: City, spec: TrainSpec, name: str) -> tuple[int, ...]:
    """Return the number of labels of each size of the phase, from the smallest up."""
    sizes = spec.sizes(name)
    rows, reached = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0)
    for file in labels.label_files:
        require_labels(labels.store, city, file)
        footer = file.footer
        if footer.n in rows and footer.row_start == reached[footer.n]:  # up to the first missing row
            rows[footer.n] += footer.rows
            reached[footer.n] = footer.row_stop
    missing = [size for size, count in rows.items() if not count]
    if missing and not spec.phase(name).gaps:
        without = ", or set policy.labels = 0 for the phase" if spec.phase(name).policy else ""
        raise McvrpError(
            f"dataset {spec.dataset!r} has no labels of {_ranges(missing)} customers, "
            f"phase {name!r} trains on {sizes[0]} to {sizes[-1]}: run mcvrp label "
            f"--set label.smallest={sizes[0]} --set label.largest={sizes[-1]}{without}"
        )
    return tuple(rows.values())


def _ranges(numbers: list[int]) -> str:
    """Return ascending numbers as ranges: "20-24, 30"."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
