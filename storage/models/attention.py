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
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.storage.versions import ATTENTION, require_readable

if TYPE_CHECKING:
    from mcvrp.model.attention_model import AttentionModel

_WEIGHTS, _README = "model.safetensors", "README.md"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Epoch:
    """What an epoch ended with: mean costs in the city's unit.

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
    """Where a training stands, besides its arrays.

    Parameters
    ----------
    city_id, network, recipe
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

    city_id: str
    network: Mapping[str, Any]
    recipe: Mapping[str, Any]
    step: int
    first: int
    untrained: float
    epochs: tuple[Epoch, ...]
    seconds: float


@dataclass(frozen=True)
class AttentionCard:
    """What an attention model is and where it comes from.

    ``diverged`` says when and how its training diverged; there are no weights then. The other
    fields are those of `TrainingState`.
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

    def require_city(self, city: City) -> None:
        """Raise McvrpError if the model is of another city than ``city``, and of none that it extends."""
        if not city.accepts(self.city_id):
            raise McvrpError(
                f"attention model {self.name!r} for n={self.n} routes city {self.city_id}, "
                f"not city {city.city_id}"
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
    data = store.get(path)
    try:
        arrays = load(data)
        length = int.from_bytes(data[:8], "little")
        values = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["state"])
        values["epochs"] = tuple(Epoch(**epoch) for epoch in values["epochs"])
        return TrainingState(**values), {key: np.array(a) for key, a in arrays.items()}
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise McvrpError(
            f"{store.url(path)} is corrupt ({error}): delete it, and mcvrp am begins this size again"
        ) from error


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
        store.put(f"{card.folder}/{_WEIGHTS}", data)
    if costs is not None:
        store.put(layout.attention_costs(card.name, card.n), costs)
    text = attention_readme(card, pictured=costs is not None)
    store.put(f"{card.folder}/{_README}", text.encode())
    store.put_json(layout.attention_card(card.name, card.n), asdict(card))
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
    try:
        values = store.get_json(path)
        require_readable(ATTENTION, values, store.url(path))
        values["epochs"] = tuple(Epoch(**epoch) for epoch in values["epochs"])
        return AttentionCard(**values)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise McvrpError(f"{store.url(path)} is no attention model's card ({error})") from error


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
    path = f"{card.folder}/{_WEIGHTS}"
    data = store.get(path)
    found = hashlib.sha256(data).hexdigest()
    if found != card.weights_sha256:
        raise McvrpError(
            f"{store.url(path)} is corrupt: its checksum is {found[:12]}, the card names "
            f"{card.weights_sha256[:12]}; delete {store.url(card.folder)} and train it again with mcvrp am"
        )
    network = AttentionModel(AttentionConfig(**card.network))
    network.load_state_dict({key: torch.from_numpy(np.array(a)) for key, a in load(data).items()})
    return network.eval(), card


# The card of an attention model for people

_PICTURE = "\n![Mean costs by epoch](costs.png)\n"
_SHOWN = 12  # epochs in the table: the first, the last, and some between


def attention_overview(name: str, cards: Sequence[AttentionCard]) -> str:
    """Return the models ``name`` of all sizes as Markdown, a row each."""
    return f"""# Attention models {name}

One network a size, trained without labels; each folder `n=SIZE` describes its own. Costs are means.

{attention_table(cards)}
"""


def attention_table(cards: Sequence[AttentionCard]) -> str:
    """Return a Markdown table with a row a model: how long it was trained, how good it became."""
    head = "| Customers | Steps | Epochs | Untrained cost | Greedy cost | Took (s) | Diverged | City |"
    lines = [head, "|--:|--:|--:|--:|--:|--:|---|---|"]
    for card in cards:
        greedy = f"{card.epochs[-1].greedy:.3f}" if card.epochs and card.diverged is None else "–"
        figures = f"{card.n} | {card.steps:,} | {len(card.epochs)} | {card.untrained:.3f} | {greedy}"
        lines.append(f"| {figures} | {card.seconds:,.0f} | {card.diverged or 'no'} | {card.city_id} |")
    return "\n".join(lines)


def attention_readme(card: AttentionCard, *, pictured: bool = False) -> str:
    """Return the card as Markdown, with the picture of the costs that lies beside it, if there is one."""
    network, recipe = card.network, card.recipe
    rows = [
        ("city", f"`{card.city_id}`"),
        ("customers an instance", f"{card.n}, no other number"),
        (
            "network",
            f"{network['layers']} layers of {network['dim']}, {network['heads']} heads, ff {network['ff']}",
        ),
        (
            "trained by",
            f"REINFORCE, {card.steps:,} steps of {recipe['batch']} instances, "
            f"solutions drawn of each: {recipe['paths']}",
        ),
        ("learning rate", f"{recipe['lr']:g}, times {recipe['lr_decay']:g} an epoch"),
        ("took", f"{card.seconds:,.0f} s on {card.hardware}"),
        ("weights", f"{card.weights_bytes:,} bytes, sha256 `{card.weights_sha256[:16]}`"),
    ]
    if card.diverged is not None:
        rows[-1] = ("weights", f"none: it diverged at {card.diverged}")
    every = max(1, -(-len(card.epochs) // _SHOWN))
    epochs = [e for e in card.epochs if e.epoch % every == 0 or e is card.epochs[-1] or e.epoch == 1]
    table = [
        f"| {e.epoch} | {e.step:,} | {e.sampled:.4f} | {e.greedy:.4f} | {e.baseline:.4f} |" for e in epochs
    ]
    head = ["| epoch | step | sampled | greedy | baseline, greedy |", "|--:|--:|--:|--:|--:|"]
    before = (
        f"Mean costs; the network routed the evaluation instances for {card.untrained:.4f} before training."
    )
    text = f"""# Attention model {card.name}, {card.n} customers

The attention model of Kool, van Hoof and Welling (2019), a baseline that learns without labels.

{_rows(rows)}

{before}

{chr(10).join([*head, *table])}
{_PICTURE if pictured else ""}"""
    return text if card.diverged is not None else text + _use(card)


def _use(card: AttentionCard) -> str:
    return f"""
## Use

```python
from mcvrp.model.instances import InstanceStream
from mcvrp.storage.models.attention import load_attention_model
from mcvrp.storage.cities import find_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.attention import AttentionSolver

store = Store.open("STORE")
network, card = load_attention_model(store, "{card.name}", {card.n})
city = find_city(store, card.city_id)
orders = [InstanceStream(city, 1, "test")({card.n}, 0)]
solver = AttentionSolver({{{card.n}: network}}, city_id=card.city_id)
for answer in solver.solve(city, orders, samples=100, seed=1):
    print(answer.solution.routes, answer.costs.min())
```
"""


def _rows(rows: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
