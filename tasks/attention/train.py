"""Training of attention models, one per size: checks, finished models, and those left to train."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import city_text, require_city
from mcvrp.storage.layout import attention_lease, attention_training
from mcvrp.storage.models.attention import AttentionCard, attention_card, load_training
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.attention.loop import Checkpoint, Training, origin_of
from mcvrp.tasks.attention.spec import AttentionSpec


@dataclass(frozen=True)
class AttentionSummary:
    """Attention models of a run; ``seconds`` is the time of this call."""

    model: str
    cards: tuple[AttentionCard, ...]
    seconds: float


def check_attention_models(store: Store, city: City, spec: AttentionSpec) -> None:
    """Check all sizes of ``spec``, and their stored models, before any is trained; see `train_attention`."""
    spec = spec.in_city(city)
    for n in _named(spec)[1]:
        if n > city.customers:
            raise McvrpError(
                f"attention.sizes: {n} customers, the city has {city.customers}: remove larger sizes"
            )
        spec.rules_in(city).capacity_range(n)
        if spec.batches(n) < 1:
            raise McvrpError(
                f"attention.epoch_instances = {spec.epoch_instances:,} is less than a batch of n={n} "
                f"({spec.batch_of(n)}): use at least one batch"
            )
        _stored(store, city, spec, n)


def train_attention(store: Store, city: City, spec: AttentionSpec) -> AttentionSummary:
    """Train the attention models of ``spec`` that are not finished.

    ``spec`` needs a name and sizes (`AttentionSpec.filled`). McvrpError if the city is too small, there is
    no capacity rule for a size, a stored model or checkpoint has other settings, or another process trains
    the models.
    """
    check_attention_models(store, city, spec)  # all sizes first, as each may take days
    began, (name, sizes) = time.monotonic(), _named(spec)
    cards = tuple(train_size(store, city, spec, n) for n in sizes)
    return AttentionSummary(name, cards, time.monotonic() - began)


def train_size(store: Store, city: City, spec: AttentionSpec, n: int) -> AttentionCard:
    """Train the attention model for ``n`` customers from its checkpoint, and return its card.

    A training that diverges has a card without weights. Raises as `train_attention`.
    """
    spec = spec.in_city(city)
    name = _named(spec)[0]
    if isinstance(stored := _stored(store, city, spec, n), AttentionCard):
        store.delete(attention_training(name, n))  # left if the publication was killed at its end
        return stored
    with holding(store, attention_lease(name), f"attention models {name!r} are being trained") as lease:
        # Read again: the previous holder of the lease may have trained meanwhile.
        if isinstance(stored := _stored(store, city, spec, n), AttentionCard):
            return stored
        return Training(store, city, spec, n, stored, lease).run()


def _named(spec: AttentionSpec) -> tuple[str, tuple[int, ...]]:
    """Return name and sizes of the models; McvrpError if one is missing."""
    if spec.model is None:
        raise McvrpError("attention.model is missing: name the attention models")
    if not spec.sizes:
        raise McvrpError("attention.sizes is missing: list the sizes to train")
    return spec.model, spec.sizes


def _stored(store: Store, city: City, spec: AttentionSpec, n: int) -> AttentionCard | Checkpoint | None:
    """Return the card of size ``n``, otherwise its checkpoint; McvrpError if it has other settings."""
    name, _ = _named(spec)
    stored = attention_card(store, name, n) or load_training(store, name, n)
    if stored is not None:
        origin = stored.origin if isinstance(stored, AttentionCard) else stored[0].origin
        hint = "use another name (attention.model), or the previous value"
        model = f"attention model {name!r} for n={n}"
        # a finished model is valid in an extended city; the rest of a training would have other instances
        if origin.city_id in city.ancestors and not isinstance(stored, AttentionCard):
            raise McvrpError(
                f"the training of {model} began in city {city_text(store, origin.city_id)}, which "
                f"{city_text(store, city.city_id)} extends: finish it there (city.name), or use another name "
                "(attention.model)"
            )
        require_city(store, city, origin.city_id, f"{model} is", hint)
        origin.require(origin_of(city, spec, n), model, hint, "attention", AttentionSpec.model_fields)
    return stored
