"""Attention models in the store, one a size: finished ones, and where the training of the others stands.

`README.md` lists the sizes. A size is a folder: while it trains, `training.safetensors` (weights,
Adam's moments, the baseline's weights and all counters in one file, written whole); then
`model.safetensors`, `costs.png`, `README.md` (the card for people) and `model.json` (the card for
programs, written last). A training that diverged leaves cards without weights. Knows arrays; torch is
imported by `load_attention_model` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout, markdown
from mcvrp.storage.documents import as_document, read_document
from mcvrp.storage.models.weights import MODEL_WEIGHTS, read_weights
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import Origin
from mcvrp.storage.versions import ATTENTION

if TYPE_CHECKING:
    from mcvrp.model.attention_model import AttentionModel

_PACKAGE = "mcvrp.storage.models"
_SHOWN = 12  # epochs in the card's table: the first, the last, and some between

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Epoch:
    """End of an epoch: mean costs in the city's unit.

    ``sampled`` is of its training, ``greedy`` and ``baseline`` of the evaluation instances routed
    by the network and by the baseline that it was trained against; ``replaced`` says whether the
    network became the baseline.
    """

    epoch: int
    step: int
    sampled: float
    greedy: float
    baseline: float
    replaced: bool


@dataclass(frozen=True)
class TrainingState:
    """Counters of a training that goes on, beside its arrays.

    Parameters
    ----------
    origin
        What it belongs to; training goes on from it only where all of this is the same.
    step
        Updates done.
    first
        The first of the evaluation instances that the present baseline is tested on.
    untrained
        Mean greedy cost before the first update.
    epochs
        Those that ended.
    seconds
        What it took so far.
    """

    origin: Origin
    step: int
    first: int
    untrained: float
    epochs: tuple[Epoch, ...]
    seconds: float


@dataclass(frozen=True)
class AttentionCard:
    """Card of an attention model: what it is and where it comes from.

    ``diverged`` says when and how its training diverged; there are no weights then. The other
    fields are those of `TrainingState` and of its origin.
    """

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
    diverged: str | None = None
    weights_bytes: int = 0
    weights_sha256: str = ""
    format: int = ATTENTION.version

    @property
    def folder(self) -> str:
        """The model's path in the store."""
        return layout.attention_size_dir(self.name, self.n)

    @property
    def origin(self) -> Origin:
        """City, network and recipe that it was trained with."""
        return Origin(self.city_id, "", self.network, self.recipe, "")

    def require_city(self, city: City) -> None:
        """Raise McvrpError if the model is of another city than ``city``, and of none that it extends."""
        if not city.accepts(self.city_id):
            raise McvrpError(
                f"attention model {self.name!r} for n={self.n} routes city {self.city_id}, "
                f"not city {city.city_id}: name the models of this city, or train some (mcvrp am)"
            )


def save_training(store: Store, name: str, n: int, state: TrainingState, arrays: Arrays) -> None:
    """Write where a training stands, in one file: whole or not at all."""
    metadata = {"state": json.dumps(asdict(state))}
    store.put(layout.attention_training(name, n), save(arrays, metadata=metadata))


def load_training(store: Store, name: str, n: int) -> tuple[TrainingState, Arrays] | None:
    """Return where a training stands, None where there is none.

    Raises
    ------
    McvrpError
        If the file is corrupt.
    """
    path = layout.attention_training(name, n)
    if not store.exists(path):
        return None
    data, hint = store.get(path), "delete it, and mcvrp am begins this size again"
    try:
        arrays = {key: np.array(a) for key, a in load(data).items()}
        # safetensors reads metadata from files only; its format begins with the header and its length.
        header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
        document = parse_json(header["__metadata__"]["state"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise McvrpError(f"{store.url(path)} is corrupt ({error}): {hint}") from error
    state = as_document(document, TrainingState, store.url(path), named="state of a training", hint=hint)
    return state, arrays


def publish_attention_model(
    store: Store, card: AttentionCard, weights: Arrays, costs: bytes | None = None
) -> AttentionCard:
    """Write a finished model, or the cards alone of one that diverged; return its card.

    What training had to go on from is deleted last: whoever is stopped on the way does this again.

    Parameters
    ----------
    costs
        A picture (PNG) of the costs of its epochs.
    """
    if card.diverged is None:
        data = save(weights)
        card = replace(card, weights_bytes=len(data), weights_sha256=hashlib.sha256(data).hexdigest())
        store.put(f"{card.folder}/{MODEL_WEIGHTS}", data)
    if costs is not None:
        store.put(layout.attention_costs(card.name, card.n), costs)
    text = attention_readme(card, pictured=costs is not None)
    store.put(f"{card.folder}/README.md", text.encode())
    store.put_json(layout.attention_card(card.name, card.n), asdict(card))  # from here on it is finished
    overview = attention_overview(card.name, attention_models(store, card.name))
    store.put(layout.attention_overview(card.name), overview.encode())
    store.delete(layout.attention_training(card.name, card.n))
    return card


def attention_models(store: Store, name: str) -> list[AttentionCard]:
    """Return the cards of the attention models ``name``, those that diverged too, by size."""
    folders = store.folders(layout.attention_dir(name))
    sizes = sorted(n for n in map(layout.size_of, folders) if n is not None)
    cards = (attention_card(store, name, n) for n in sizes)
    return [card for card in cards if card is not None]


def attention_card(store: Store, name: str, n: int) -> AttentionCard | None:
    """Return the card of the attention model ``name`` for ``n`` customers, None where none is finished.

    Raises
    ------
    McvrpError
        If the card is none.
    """
    path = layout.attention_card(name, n)
    if not store.exists(path):
        return None
    hint = "remove it, and mcvrp am trains this size again"
    return read_document(store, path, AttentionCard, ATTENTION, named="attention model's card", hint=hint)


def attention_failure(card: AttentionCard | None, n: int) -> str | None:
    """Return why there is no attention model for ``n`` customers to decode with, None if there is one."""
    if card is None:
        return f"there is no attention model for n={n}: run mcvrp am --set attention.sizes=[{n}]"
    return None if card.diverged is None else f"diverged in training at {card.diverged}"


def load_attention_model(store: Store, name: str, n: int) -> tuple[AttentionModel, AttentionCard]:
    """Return the attention model ``name`` for ``n`` customers, on the processor, and its card.

    Raises
    ------
    McvrpError
        If there is none, it diverged, or its weights are not the ones that were written.
    """
    import torch  # here: listing models needs no torch, and its import takes seconds

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


def attention_overview(name: str, cards: Sequence[AttentionCard]) -> str:
    """Return the models ``name`` of all sizes as Markdown, a row each."""
    return markdown.render(_PACKAGE, "attention_overview.md.j2", name=name, table=attention_table(cards))


def attention_table(cards: Sequence[AttentionCard]) -> str:
    """Return a Markdown table with a row a model: how long it was trained, how good it became."""
    header = ["Customers", "Steps", "Epochs", "Untrained cost", "Greedy cost", "Took (s)", "Diverged", "City"]
    rows = [
        [
            str(card.n),
            f"{card.steps:,}",
            str(len(card.epochs)),
            f"{card.untrained:.3f}",
            f"{card.epochs[-1].greedy:.3f}" if card.epochs and card.diverged is None else "–",
            f"{card.seconds:,.0f}",
            card.diverged or "no",
            card.city_id,
        ]
        for card in cards
    ]
    return markdown.table(header, rows, "rrrrrrll")


def attention_readme(card: AttentionCard, *, pictured: bool = False) -> str:
    """Return the card as Markdown, with the picture of the costs that lies beside it, if there is one."""
    every = max(1, -(-len(card.epochs) // _SHOWN))
    epochs = [e for e in card.epochs if e.epoch % every == 0 or e is card.epochs[-1] or e.epoch == 1]
    metadata = markdown.card_metadata({"library_name": "mcvrp", "pipeline_tag": markdown.TASK})
    text = markdown.render(_PACKAGE, "attention.md.j2", card=card, epochs=epochs, pictured=pictured)
    return metadata + text
