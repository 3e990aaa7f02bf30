"""Resuming of a run: the state of its phases, and whether it fits what is asked, before a rank starts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Range, Rules
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import require_city
from mcvrp.storage.layout import phase_dir, trainer_lease
from mcvrp.storage.models.models import ModelCard, model_card, model_weights
from mcvrp.storage.store.lease import Lease, holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    latest_checkpoint,
    save_checkpoint,
)
from mcvrp.tasks.train.spec import BASE_PHASE, TrainSpec


def network_of(city: City, spec: TrainSpec) -> dict[str, Any]:
    """Return the shape of the network that the run trains, by the names of `model.network.NetworkConfig`."""
    return {"classes": city.classes, **spec.network.model_dump()}


def origin_of(city: City, spec: TrainSpec, name: str, rules: Rules, data: str, parent: str) -> Origin:
    """Return what makes the phase ``name`` what it is, on labels with the fingerprint ``data``.

    ``rules`` are those of `order_rules`.
    """
    recipe = dict(spec.recipe(name))
    if spec.phase(name).policy:  # what it leaves open decides the result, too
        ranges = {"policy.demand": rules.demand, "policy.capacity": rules.capacity}
        recipe |= {field: None if value is None else list(value) for field, value in ranges.items()}
    return Origin(city.city_id, data, network_of(city, spec), recipe, parent)


def order_rules(store: Store, city: City, spec: TrainSpec, name: str) -> Rules:
    """Return the rules by which the phase ``name`` draws orders, where it draws them by policy.

    Ranges that it leaves open are those of its labels, else the city's own, else the paper's.
    """
    policy = spec.phase(name).policy
    if policy is None:
        return Rules()
    path, labelled = layout.label_spec(spec.dataset), {}
    if store.exists(path) and isinstance(document := store.get_json(path), dict):
        labelled = document
    ranges = [
        _range(given) or _range(labelled.get(field))
        for field, given in (("demand", policy.demand), ("capacity", policy.capacity))
    ]
    return Rules.of(city, *ranges)


def _range(value: object) -> Range | None:
    match value:
        case [int(low), int(high)]:
            return low, high
    return None


def beginning(
    store: Store, labels: Dataset | None, city: City, spec: TrainSpec, name: str, rules: Rules
) -> tuple[CheckpointState | None, Origin]:
    """Return the checkpoint that the phase begins with, and what makes the phase what it is.

    ``labels`` is None where the phase has none.
    """
    before = spec.before(name)
    parent = finished(store, spec, before.name, f"phase {name!r}") if before else _base(store, city, spec)
    data = labels.fingerprint() if labels else ""
    origin = origin_of(city, spec, name, rules, data, parent.weights_sha256 if parent else "")
    if parent:
        theirs = Origin(
            parent.origin.city_id, origin.fingerprint, parent.origin.network, origin.recipe, origin.parent
        )
        check_origin(store, city, parent, origin, theirs)
    return parent, origin


def base_card(store: Store, city: City, spec: TrainSpec) -> ModelCard | None:
    """Return the card of the model that the run goes on from, None where its weights are random.

    Raises
    ------
    McvrpError
        If there is no such model, or it has another network.
    """
    if spec.base_version is None:
        return None
    try:
        card = model_card(store, *spec.base_version)
    except McvrpError as error:
        raise McvrpError(f"train.base = {spec.base}: {error}") from error
    wanted = network_of(city, spec)
    for field in wanted | dict(card.network):
        has, asked = (shape.get(field, False) for shape in (card.network, wanted))  # unsaid: it is off
        if has != asked:
            raise McvrpError(
                f"train.base {spec.base} has network.{field} = {has}, the run asks for {asked}: "
                "give the run the network of its base"
            )
    return card


def _base(store: Store, city: City, spec: TrainSpec) -> CheckpointState | None:
    """Return the weights that the run goes on from, as a finished phase of it; None where they are random."""
    if (card := base_card(store, city, spec)) is None:
        return None
    there = latest_checkpoint(store, spec.run, BASE_PHASE)
    if there and there.origin.parent == card.weights_sha256:
        return there
    origin = Origin(card.city_id, card.fingerprint, card.network, {}, card.weights_sha256)
    # A phase of one step that is over: what follows goes on from it as from any phase before.
    state = CheckpointState(spec.run, BASE_PHASE, 1, 1, 0, origin, card.metrics)
    weights = model_weights(store, card)
    with run_lease(store, spec) as lease:
        return save_checkpoint(store, state, weights, Moments({}, {}), confirm=lease.confirm)


def run_lease(store: Store, spec: TrainSpec) -> AbstractContextManager[Lease]:
    """Hold the lease of who trains the run; McvrpError if another does."""
    return holding(store, trainer_lease(spec.run), f"run {spec.run!r} is being trained")


def finished(store: Store, spec: TrainSpec, name: str, needed_by: str) -> CheckpointState:
    """Return the last checkpoint of the phase ``name``; McvrpError where it is not finished."""
    state = latest_checkpoint(store, spec.run, name)
    if state is None or not state.complete:
        where = f"stands at step {state.step:,} of {state.steps:,}" if state else "has not begun"
        raise McvrpError(
            f"{needed_by} needs the finished phase {name!r} of run {spec.run!r}, which {where}: "
            f"run mcvrp train --phase {name}"
        )
    return state


def check_origin(
    store: Store, city: City, state: CheckpointState, wanted: Origin, found: Origin | None = None
) -> None:
    """Raise McvrpError if ``state`` is of something else than ``wanted``; names the first difference.

    What was trained for a city that ``city`` extends goes on for ``city``.
    """
    hint = f"name the run differently or delete {store.url(phase_dir(state.run, state.phase))}"
    (found or state.origin).require(wanted, city, f"phase {state.phase!r} of run {state.run!r}", hint)


def label_counts(labels: Dataset, city: City, spec: TrainSpec, name: str) -> tuple[int, ...]:
    """Return how many labels there are of each size of the phase, from the smallest up."""
    sizes = spec.sizes(name)
    if sizes[-1] > city.customers:
        raise McvrpError(
            f"phase {name!r} trains on {sizes[-1]} customers, the city {city.city_id} has {city.customers}: "
            "lower its last"
        )
    rows, reached = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0)
    for shard in labels.shards():
        require_city(labels.store, shard, city)
        footer = shard.footer
        if footer.n in rows and footer.row_start == reached[footer.n]:  # up to the first gap
            rows[footer.n] += footer.rows
            reached[footer.n] = footer.row_stop
    missing = [size for size, count in rows.items() if not count]
    if missing and not spec.phase(name).gaps:
        without = ", or let the phase have policy.labels = 0" if spec.phase(name).policy else ""
        raise McvrpError(
            f"dataset {spec.dataset!r} has no labels of {_ranges(missing)} customers, "
            f"phase {name!r} trains on {sizes[0]} to {sizes[-1]}: run mcvrp label "
            f"--set label.smallest={sizes[0]} --set label.largest={sizes[-1]}{without}"
        )
    return tuple(rows.values())


def _ranges(numbers: list[int]) -> str:
    """Return ascending numbers as a person writes them: "20-24, 30"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
