"""Start of a phase: where it starts or resumes, and whether its checkpoints fit the spec.

Two ways in: `check_training`, before labels exist, and `phase_start`, before the ranks of a phase start.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range, Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import require_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.layout import phase_dir, trainer_lease
from mcvrp.storage.models.models import ModelCard, model_card
from mcvrp.storage.store.lease import Lease, holding
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import CheckpointState, Origin, latest_checkpoint
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.text import listed
from mcvrp.tasks.train.held_out import require_labels
from mcvrp.tasks.train.resources import rank_count, require_cores
from mcvrp.tasks.train.spec import TrainSpec


@dataclass(frozen=True)
class PhaseStart:
    """Where a phase starts, as read from the store."""

    counts: tuple[int, ...]  # labels of each size, from `spec.smallest` up; () if the phase needs none
    rules: Rules  # of the instances of a policy-gradient phase
    initial: CheckpointState | ModelCard | None  # has the initial weights; None: random ones
    origin: Origin  # recorded in the checkpoints of the phase
    checkpoint: CheckpointState | None  # its last one


def phase_start(store: Store, city: City, spec: TrainSpec, name: str) -> PhaseStart:
    """Return where the phase ``name`` starts.

    Its initial weights are those of the previous phase, or of the base model. McvrpError if sizes or ranges
    of any phase do not fit the city (each may take days), labels are missing, the previous phase is not
    finished, or a checkpoint has other settings.
    """
    _require_sizes(city, spec)
    _require_rules(store, city, spec)
    _require_split(store, spec)
    labels = Dataset.listed(store, spec.dataset) if spec.needs_labels(name) else None
    counts = _label_counts(labels, city, spec, name) if labels else ()
    index = spec.phases.index(spec.phase(name))
    previous = finished(store, spec, spec.phases[index - 1].name, f"phase {name!r}") if index else None
    initial = previous or _base_card(store, city, spec)
    rules, data = _order_rules(store, city, spec, name), labels.fingerprint() if labels else ""
    origin = _origin_of(city, spec, name, rules, data, initial.weights_sha256 if initial else "")
    if previous:  # its city and network have to be ours, its data and recipe need not
        check_origin(store, city, previous, replace(previous.origin, network=origin.network))
    checkpoint = latest_checkpoint(store, spec.run, name)
    if checkpoint:
        check_origin(store, city, checkpoint, origin)
    return PhaseStart(counts, rules, initial, origin, checkpoint)


def check_training(store: Store, city: City, spec: TrainSpec) -> None:
    """Check what can be checked without labels: sizes, ranks, the base model, existing checkpoints.

    McvrpError as in `require_trainable`, or if the batch cannot be divided among the ranks, their number
    exceeds the cores or GPUs, or a checkpoint has other settings.
    """
    require_trainable(store, city, spec)
    cores = local_cores()
    ranks = rank_count(spec, cores)
    if spec.launcher == "local":
        require_cores(ranks, cores)
    for phase in spec.phases:
        checkpoint = latest_checkpoint(store, spec.run, phase.name)
        if checkpoint:
            stored, rules = checkpoint.origin, _order_rules(store, city, spec, phase.name)
            origin = _origin_of(city, spec, phase.name, rules, stored.fingerprint, stored.parent)
            check_origin(store, city, checkpoint, origin)


def require_trainable(store: Store, city: City, spec: TrainSpec) -> None:
    """Raise McvrpError if instances cannot be drawn in the city, or its labels or base are of no use."""
    _require_sizes(city, spec)
    _require_split(store, spec)
    if store.exists(layout.label_spec(spec.dataset)):  # before, ranges of the labels are unknown
        _require_rules(store, city, spec)
    _base_card(store, city, spec)


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
            "run mcvrp train with the same preset"
        )
    return state


def check_origin(store: Store, city: City, state: CheckpointState, wanted: Origin) -> None:
    """Raise McvrpError, with the first difference, if ``state`` is not of the origin ``wanted``.

    A checkpoint of a city that ``city`` extends is accepted.
    """
    hint = f"set train.run to another name, or delete {store.url(phase_dir(state.run, state.phase))}"
    phase = f"phase {state.phase!r} of run {state.run!r}"
    require_city(store, city, state.origin.city_id, f"{phase} is", hint)
    state.origin.require(wanted, phase, hint, "train", TrainSpec.model_fields)


def _require_sizes(city: City, spec: TrainSpec) -> None:
    """Raise McvrpError if a phase has instances of more customers than ``city``."""
    for phase in spec.phases:
        if phase.last > city.customers:
            raise McvrpError(
                f"phase {phase.name!r} trains on {phase.last} customers, the city has {city.customers}: "
                "lower last of the phase"
            )


def _require_rules(store: Store, city: City, spec: TrainSpec) -> None:
    """Raise McvrpError if a policy-gradient phase has no ranges to draw new instances of a size from."""
    for phase in spec.phases:
        if phase.policy is None or phase.policy.source == "labels":
            continue
        rules = _order_rules(store, city, spec, phase.name)
        try:
            for n in spec.sizes(phase.name):
                rules.capacity_range(n)
        except McvrpError as error:
            raise McvrpError(f"phase {phase.name!r}: {error}") from error


def _require_split(store: Store, spec: TrainSpec) -> None:
    """Raise McvrpError if the labels are those of instances that models are measured on."""
    split = _label_spec(store, spec).get("split", "train")
    if split != "train":
        raise McvrpError(
            f"train.dataset: dataset {spec.dataset!r} is of split {split!r}, not 'train': models are "
            "measured on its instances, name another"
        )


def _network_of(city: City, spec: TrainSpec) -> dict[str, Any]:
    """Return the fields of `model.network.NetworkConfig` of the network that the run trains."""
    return {"classes": city.classes, **spec.network.model_dump()}


def _origin_of(city: City, spec: TrainSpec, name: str, rules: Rules, data: str, parent: str) -> Origin:
    """Return the origin of the phase ``name``: all that decides its result.

    ``rules`` see `_order_rules`; ``data`` is the fingerprint of the labels, ``parent`` the checksum of the
    initial weights.
    """
    recipe = dict(spec.recipe(name))
    if spec.phase(name).policy:  # ranges that it leaves open decide the result, too
        ranges = {"policy.demand": rules.demand, "policy.capacity": rules.capacity}
        recipe |= {field: None if value is None else list(value) for field, value in ranges.items()}
    return Origin(city.city_id, data, _network_of(city, spec), recipe, parent)


def _order_rules(store: Store, city: City, spec: TrainSpec, name: str) -> Rules:
    """Return the demand and capacity rules of the instances of a policy-gradient phase.

    Ranges that it leaves open are those of its labels, otherwise the city's, otherwise the paper's.
    """
    policy = spec.phase(name).policy
    if policy is None:
        return Rules()
    labelled = _label_spec(store, spec)
    demand, capacity = (_range(labelled.get(field)) for field in ("demand", "capacity"))
    return Rules.of(city, policy.demand or demand, policy.capacity or capacity)


def _label_spec(store: Store, spec: TrainSpec) -> dict[str, Any]:
    """Return the fields of the spec of the labels, none if it is not there."""
    path = layout.label_spec(spec.dataset)
    document = store.get_json(path) if store.exists(path) else {}
    return document if isinstance(document, dict) else {}


def _range(value: object) -> Range | None:
    match value:
        case [int(low), int(high)]:
            return low, high
    return None


def _base_card(store: Store, city: City, spec: TrainSpec) -> ModelCard | None:
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
    networks = [dict(each) | {"dropout": 0.0} for each in (card.network, _network_of(city, spec))]
    base, wanted = (Origin(city.city_id, "", network, {}, "") for network in networks)
    base.require(wanted, f"train.base {spec.base}", "use its network", "train", TrainSpec.model_fields)
    return card


def _label_counts(labels: Dataset, city: City, spec: TrainSpec, name: str) -> tuple[int, ...]:
    """Return the number of labels of each size of the phase, from the smallest up."""
    sizes, count = spec.sizes(name), _label_spec(labels.store, spec).get("count")
    requested = count if isinstance(count, int) else 0
    rows, reached = dict.fromkeys(sizes, 0), {n: labels.rows_until_gap(n) for n in sizes}
    for file in labels.label_files:
        require_labels(labels.store, city, file)
        footer = file.footer
        if footer.n in rows and footer.row_stop <= reached[footer.n]:
            rows[footer.n] += footer.rows
    if spec.phase(name).gaps:
        return tuple(rows.values())
    if missing := [size for size, count in rows.items() if not count]:
        without = ", or set policy.labels = 0 for the phase" if spec.phase(name).policy else ""
        raise McvrpError(
            f"dataset {spec.dataset!r} has no labels of {listed(missing)} customers, "
            f"phase {name!r} trains on {sizes[0]} to {sizes[-1]}: run mcvrp label "
            f"with the same preset{without}"
        )
    for n in sizes:
        end = max(requested, labels.files[n][-1].stop)
        if reached[n] < end:
            raise McvrpError(
                f"dataset {spec.dataset!r} lacks labels of {n} customers from row {reached[n]:,} on, of "
                f"{end:,}: run mcvrp label with the same preset and --set label.count={end}, or set "
                "gaps of the phase to train on those before them"
            )
    return tuple(rows.values())
