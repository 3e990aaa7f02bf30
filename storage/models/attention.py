"""Attention models in the store, one per size: finished models, and checkpoints of unfinished ones.

A size has a folder: during training with `training.safetensors` (weights, Adam's moments, baseline and
counters in one file), afterwards with `model.safetensors`, `README.md` (card for people) and
`model.json` (card for programs, written last). A training that diverged leaves cards without weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout, markdown
from mcvrp.storage.documents import as_document
from mcvrp.storage.models.weights import MODEL_WEIGHTS, Arrays as Arrays, read_weights
from mcvrp.storage.provenance import Provenance, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import Origin

if TYPE_CHECKING:
    from mcvrp.model.attention_model import AttentionModel

_STATE = "state"  # name of the counters, as JSON, among the arrays
_TRAIN_AGAIN = "delete it, and mcvrp am trains this size from scratch"


@dataclass(frozen=True)
class Epoch:
    """Result of an epoch; mean costs in the city's unit."""

    epoch: int
    step: int
    sampled: float  # of the training samples
    greedy: float  # of the network, decoded greedily, on the evaluation instances
    baseline: float  # of the baseline network on the same instances
    replaced: bool  # whether the network became the baseline


@dataclass(frozen=True)
class TrainingState:
    """Counters of an unfinished training, beside its arrays."""

    origin: Origin  # training resumes only if it is equal
    step: int
    first: int  # the first of the evaluation instances of the current baseline
    untrained: float  # mean greedy cost before the first update
    epochs: tuple[Epoch, ...]
    seconds: float


@dataclass(frozen=True)
class AttentionCard:
    """Card of an attention model: fields of its `TrainingState` and origin, and of its weights."""

    name: str
    n: int
    city_id: str
    network: Mapping[str, Any]
    recipe: Mapping[str, Any]
    steps: int
    untrained: float
    epochs: tuple[Epoch, ...]
    seconds: float
    hardware: str
    diverged: str | None = None  # when and how the training diverged; there are no weights then
    weights_bytes: int = 0
    weights_sha256: str = ""
    provenance: Provenance | None = None

    @property
    def folder(self) -> str:
        """Path of the model in the store."""
        return layout.attention_size_dir(self.name, self.n)

    @property
    def origin(self) -> Origin:
        """City, network and recipe of its training."""
        return Origin(self.city_id, "", self.network, self.recipe, "")


def save_training(store: Store, name: str, n: int, state: TrainingState, arrays: Arrays) -> None:
    """Write a checkpoint, in one file, so that it is whole or absent."""
    text = np.frombuffer(json.dumps(asdict(state)).encode(), np.uint8)
    store.put(layout.attention_training(name, n), save({**arrays, _STATE: text}))


def load_training(store: Store, name: str, n: int) -> tuple[TrainingState, Arrays] | None:
    """Return the checkpoint of a training, None without one; McvrpError if it is corrupt."""
    path = layout.attention_training(name, n)
    if (data := store.find(path)) is None:
        return None
    url, named = store.url(path), "state of a training"
    try:
        arrays = {key: np.array(a) for key, a in load(data).items()}
        text = arrays.pop(_STATE).tobytes()
    except (SafetensorError, KeyError) as error:
        raise McvrpError(f"{url} is corrupt ({error}): {_TRAIN_AGAIN}") from error
    return as_document(text, TrainingState, url, named=named, hint=_TRAIN_AGAIN), arrays


def publish_attention_model(store: Store, card: AttentionCard, weights: Arrays) -> AttentionCard:
    """Write a finished model, or only the cards of one that diverged; return its card.

    An interrupted publication is repeated.
    """
    if card.diverged is None:
        data = save(weights)
        card = replace(card, weights_bytes=len(data), weights_sha256=hashlib.sha256(data).hexdigest())
        store.put(f"{card.folder}/{MODEL_WEIGHTS}", data)
    store.put(f"{card.folder}/README.md", _readme(card).encode())
    store.put_json(layout.attention_card(card.name, card.n), asdict(card))  # the model is finished from here
    store.delete(layout.attention_training(card.name, card.n))
    return card


def attention_models(store: Store, name: str) -> list[AttentionCard]:
    """Return the cards of the attention models ``name`` by size, including those that diverged."""
    sizes = map(layout.size_of, store.folders(layout.attention_dir(name)))
    cards = (attention_card(store, name, n) for n in sorted(n for n in sizes if n is not None))
    return [card for card in cards if card is not None]


def attention_card(store: Store, name: str, n: int) -> AttentionCard | None:
    """Return the card of the attention model ``name`` for ``n`` customers, None if it is not finished."""
    path = layout.attention_card(name, n)
    if (data := store.find(path)) is None:
        return None
    named = "attention model's card"
    return as_document(data, AttentionCard, store.url(path), named=named, hint=_TRAIN_AGAIN)


def attention_failure(card: AttentionCard | None, n: int) -> str | None:
    """Return the reason why there is no attention model for ``n`` customers, None if there is one."""
    if card is None:
        return f"there is no attention model for n={n}: run mcvrp am with the same preset"
    return None if card.diverged is None else f"diverged in training at {card.diverged}"


def load_attention_model(store: Store, name: str, n: int) -> tuple[AttentionModel, AttentionCard]:
    """Return the attention model ``name`` for ``n`` customers, on the CPU, and its card.

    McvrpError if it is not finished, it diverged, or its weights are corrupt.
    """
    import torch  # here: listing models needs no torch, whose import takes seconds

    from mcvrp.model.attention_model import AttentionConfig, AttentionModel

    card = attention_card(store, name, n)
    failure = attention_failure(card, n)
    if card is None or failure is not None:
        raise McvrpError(f"attention model {name!r}, n={n}: {failure}")
    hint = f"delete {store.url(card.folder)} and train it again with mcvrp am"
    weights = read_weights(store, card.folder, card.weights_sha256, hint)
    network = AttentionModel(AttentionConfig(**card.network))
    network.load_state_dict({key: torch.from_numpy(array) for key, array in weights.items()})
    return network.eval(), card


def attention_table(cards: Iterable[AttentionCard]) -> str:
    """Return a Markdown table with one row per model: length of its training, and final cost."""
    header = ["Customers", "Steps", "Epochs", "Untrained cost", "Greedy cost", "Time (s)", "Diverged"]
    rows = [
        [
            str(card.n),
            f"{card.steps:,}",
            str(len(card.epochs)),
            f"{card.untrained:.3f}",
            f"{card.epochs[-1].greedy:.3f}" if card.epochs and card.diverged is None else "–",
            f"{card.seconds:,.0f}",
            card.diverged or "no",
        ]
        for card in cards
    ]
    return markdown.table(header, rows, "rrrrrrl")


def _readme(card: AttentionCard) -> str:
    return markdown.card(
        f"Attention model {card.name}, {card.n} customers",
        {"city": f"`{card.city_id}`"},
        attention_table([card]),
        lead="The attention model of Kool, van Hoof and Welling (2019), a baseline that is trained without "
        "labels.",
        made=provenance_line(card.provenance),
    )
