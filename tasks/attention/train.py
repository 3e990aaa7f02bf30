"""Training of attention models, one a size: checks, what is there already, and what is left to train."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.layout import attention_lease
from mcvrp.storage.models.attention import (
    AttentionCard,
    attention_card,
    load_training,
)
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.loop import Checkpoint, Training, origin_of
from mcvrp.tasks.attention.spec import AttentionSpec


@dataclass(frozen=True)
class AttentionSummary:
    """The attention models of a run; ``seconds`` is what this call took."""

    model: str
    cards: tuple[AttentionCard, ...]
    seconds: float


def check_attention_models(store: Store, city: City, spec: AttentionSpec) -> None:
    """Look for all that can be wrong with ``spec`` before any size is trained, as `train_attention`."""
    spec = spec.in_city(city)
    for n in _sizes(spec):
        if n > city.customers:
            raise McvrpError(
                f"attention.sizes: {n} customers, the city has {city.customers}: ask for no more"
            )
        spec.rules_in(city).capacity_range(n)
        if spec.batches(n) < 1:
            raise McvrpError(
                f"attention.epoch_instances = {spec.epoch_instances:,} is less than a batch of n={n} "
                f"({spec.batch_of(n)}): make it a batch at least"
            )
        _stored(store, city, spec, n)


def train_attention(store: Store, city: City, spec: AttentionSpec) -> AttentionSummary:
    """Train the attention model of each size of ``spec`` that is not finished.

    ``spec`` has to name the models and the sizes (`AttentionSpec.filled`).

    Raises
    ------
    McvrpError
        If the city is too small, there is no capacity rule for a size, a model or a checkpoint is there
        that was made with something else, or the models are being trained by another process.
    """
    check_attention_models(store, city, spec)  # all sizes before the first, which may take days
    began = time.monotonic()
    cards = tuple(train_size(store, city, spec, n) for n in _sizes(spec))
    return AttentionSummary(_name(spec), cards, time.monotonic() - began)


def train_size(store: Store, city: City, spec: AttentionSpec, n: int) -> AttentionCard:
    """Train the attention model for ``n`` customers, from where it stands; return its card.

    A training that diverges ends with a card that says so. Raises as `train_attention` does.
    """
    spec = spec.in_city(city)
    found = _stored(store, city, spec, n)
    if isinstance(found, AttentionCard):
        return found
    what = f"attention models {_name(spec)!r} are being trained"
    with holding(store, attention_lease(_name(spec)), what) as lease:
        found = _stored(store, city, spec, n)  # by whoever had the lease before us, perhaps
        if isinstance(found, AttentionCard):
            return found
        return Training(store, city, spec, n, found, lease).run()


def _name(spec: AttentionSpec) -> str:
    if spec.model is None:
        raise McvrpError("attention.model: give the attention models a name")
    return spec.model


def _sizes(spec: AttentionSpec) -> tuple[int, ...]:
    if not spec.sizes:
        raise McvrpError("attention.sizes: name the sizes to train")
    return spec.sizes


def _stored(store: Store, city: City, spec: AttentionSpec, n: int) -> AttentionCard | Checkpoint | None:
    """Return the card of size ``n`` or, before there is one, where its training stands.

    McvrpError if what is there was made with something else.
    """
    name = _name(spec)
    found = attention_card(store, name, n) or load_training(store, name, n)
    if found is not None:
        origin = found.origin if isinstance(found, AttentionCard) else found[0].origin
        hint = "give the models another name (attention.model), or the value of before"
        origin.require(origin_of(city, spec, n), city, f"attention model {name!r} for n={n}", hint)
    return found
