"""Finished models in the store: numbered versions under a name, each with weights and cards.

A version is a folder: `config.json` (what is needed to load it; written first, and by one
publisher only, it takes the number), `model.safetensors`, `losses.png`, `README.md` (the card for
people) and `model.json` (where it comes from; written last: without it there is no version).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.markdown import TASK, card_metadata, render
from mcvrp.storage.models.registry import ALIASES, Alias, enrol, pointer
from mcvrp.storage.models.weights import MODEL_WEIGHTS, read_weights
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import WEIGHTS, Arrays, CheckpointState, checkpoint_bytes
from mcvrp.storage.versions import MODEL

if TYPE_CHECKING:
    from mcvrp.model.network import FmMcvrp

_FEATURES = ("x", "y", "d", "t", "kappa", "gamma", "omega", "c", "a")  # Sec. 4.2, in their order
_FIGURES = {  # of the last row of training metrics: what it is, how it is written
    "problem_loss": ("loss on problem tokens (nats)", "{:.3f}"),
    "problem_accuracy": ("accuracy on problem tokens", "{:.1%}"),
    "solution_loss": ("loss on solution tokens (nats)", "{:.3f}"),
    "solution_accuracy": ("accuracy on solution tokens", "{:.1%}"),
    "greedy_gap": ("greedy gap to the labels of the held-out set (%)", "{:.2f}"),
    "best_gap": ("the same, best of several samples (%)", "{:.2f}"),
}
_MASKED = ("not in the instance", "served", "demand over the remaining capacity", "depot after depot")


@dataclass(frozen=True)
class ModelCard:
    """Card of a version: what it is and where it comes from; written after the weights, which it vouches for.

    Parameters
    ----------
    name, version
        Where it is in the store.
    city_id
        The city that it routes.
    network
        The fields of `model.network.NetworkConfig`.
    run, dataset, fingerprint
        The training run, the labels and their hash.
    rotation_trained
        Whether it has seen rotated cities, so that decoding may rotate.
    metrics
        The last row of its training metrics.
    weights_bytes, weights_sha256
        Of the weights' file.
    smallest, largest
        The sizes that its last phase was trained on; None where a card of before does not say.
    """

    name: str
    version: int
    city_id: str
    network: Mapping[str, Any]
    run: str
    dataset: str
    fingerprint: str
    rotation_trained: bool
    metrics: Mapping[str, Any]
    weights_bytes: int
    weights_sha256: str
    smallest: int | None = None
    largest: int | None = None
    format: int = MODEL.version

    @property
    def folder(self) -> str:
        """The model's path in the store."""
        return layout.model_dir(self.name, self.version)

    def require_city(self, city: City) -> None:
        """Raise McvrpError unless the model routes ``city``: its own, or one that extends it.

        The city that extends it has no more nodes than output classes were reserved.
        """
        if not city.accepts(self.city_id):
            raise McvrpError(
                f"model {self.name!r} version {self.version} routes city {self.city_id}, "
                f"not city {city.city_id}"
            )
        classes = int(self.network["classes"])
        if classes < city.customers + 1:
            raise McvrpError(
                f"model {self.name!r} version {self.version} has {classes:,} output classes, city "
                f"{city.city_id} needs {city.customers + 1:,}: train a new model, the labels hold"
            )


def export_model(
    store: Store, name: str, checkpoint: CheckpointState, *, dataset: str, rotation_trained: bool
) -> ModelCard:
    """Publish the weights of ``checkpoint`` as the next version of ``name``, and enrol it.

    If the latest version has these weights already, nothing is written and its card returned; a
    publisher that was stopped half-way is finished by the next one.
    """
    known = versions(store, name)
    if known:
        card = model_card(store, name, known[-1])
        if card.weights_sha256 == checkpoint.weights_sha256 and card.city_id == checkpoint.origin.city_id:
            enrol(store, name, card.version)  # a publisher may have been stopped just before
            return card
    data, origin = checkpoint_bytes(store, checkpoint, WEIGHTS), checkpoint.origin
    config = {
        "city_id": origin.city_id,
        "network": origin.network,
        "features": _FEATURES,
        "masked": _MASKED,
        "rotation_trained": rotation_trained,
        "weights_sha256": checkpoint.weights_sha256,
        "format": MODEL.version,
    }
    card = ModelCard(
        name=name,
        version=_take_number(store, name, (json.dumps(config, indent=2) + "\n").encode()),
        city_id=origin.city_id,
        network=origin.network,
        run=checkpoint.run,
        dataset=dataset,
        fingerprint=origin.fingerprint,
        rotation_trained=rotation_trained,
        metrics=checkpoint.metrics,
        weights_bytes=len(data),
        weights_sha256=checkpoint.weights_sha256,
        smallest=origin.recipe.get("smallest"),
        largest=origin.recipe.get("last"),
    )
    store.put(f"{card.folder}/{MODEL_WEIGHTS}", data)
    losses = layout.run_losses(checkpoint.run)
    if pictured := store.exists(losses):
        store.put(layout.model_losses(name, card.version), store.get(losses))
    text = model_readme(card, checkpoint.steps, pictured=pictured)
    store.put(f"{card.folder}/README.md", text.encode())
    store.put_json(layout.model_card(name, card.version), asdict(card))  # from here on there is a version
    enrol(store, name, card.version)
    return card


def _take_number(store: Store, name: str, config: bytes) -> int:
    """Return the version that is ``config``'s: of several publishers at once, each gets its own.

    The same config as the latest one's is a publisher that was stopped before its end, or one that
    publishes the same at this moment: all write the same bytes.
    """
    number = max(_numbers(store, name), default=0)
    while not _holds(store, layout.model_config(name, number), config):
        number += 1
        if store.put_new(layout.model_config(name, number), config):
            break
    return number


def _holds(store: Store, path: str, data: bytes) -> bool:
    return store.exists(path) and store.get(path) == data


def versions(store: Store, name: str) -> list[int]:
    """Return the numbers of the versions of ``name``, ascending."""
    return [n for n in sorted(_numbers(store, name)) if store.exists(layout.model_card(name, n))]


def _numbers(store: Store, name: str) -> set[int]:
    """Return the numbers that are taken, by versions and by what has not become one yet."""
    everything = layout.models_dir(name)
    folders = (path.removeprefix(f"{everything}/").split("/")[0] for path in store.list(everything))
    return {int(folder) for folder in folders if folder.isdigit()}


def model_card(store: Store, name: str, version: int | Alias | None = None) -> ModelCard:
    """Return the card of a version of ``name``, by number or alias; the latest without either.

    Raises
    ------
    McvrpError
        If there is no such model, or its card is none.
    """
    known = versions(store, name)
    if not known:
        raise McvrpError(f"there is no model {name!r} in {store.url()}: run mcvrp train")
    if version in ALIASES:
        alias = version
        version = pointer(store, name, alias).version
        if version is None:
            raise McvrpError(f"model {name!r} has no {alias}, it has version {', '.join(map(str, known))}")
    if version is not None and version not in known:
        raise McvrpError(f"model {name!r} has no version {version}, it has {', '.join(map(str, known))}")
    path = layout.model_card(name, known[-1] if version is None else int(version))
    return read_document(store, path, ModelCard, MODEL, named="model's card")


def load_model(store: Store, name: str, version: int | Alias | None = None) -> tuple[FmMcvrp, ModelCard]:
    """Return a model on the processor, ready to decode, and its card; ``version`` as in `model_card`.

    Raises
    ------
    McvrpError
        If there is no such model, or its weights are not the ones that were written.
    """
    import torch  # here: publishing and listing models needs no torch, and its import takes seconds

    from mcvrp.model.network import FmMcvrp, NetworkConfig

    card = model_card(store, name, version)
    network = FmMcvrp(NetworkConfig(**card.network))
    weights = model_weights(store, card)
    network.load_state_dict({key: torch.from_numpy(array) for key, array in weights.items()})
    return network.eval(), card


def model_weights(store: Store, card: ModelCard) -> Arrays:
    """Return the weights of the version that ``card`` is of, by parameter name.

    Raises
    ------
    McvrpError
        If they are not the ones that were written.
    """
    hint = "delete the version and export it again with mcvrp train"
    return read_weights(store, card.folder, card.weights_sha256, hint)


def model_readme(card: ModelCard, steps: int, *, pictured: bool = False) -> str:
    """Return the card of a model whose last phase had ``steps`` steps, as Markdown.

    ``pictured`` says whether `losses.png` lies beside it.
    """
    measured = [
        (text, form.format(card.metrics[name]))
        for name, (text, form) in _FIGURES.items()
        if card.metrics.get(name) is not None
    ]
    return card_metadata({"library_name": "mcvrp", "pipeline_tag": TASK}) + render(
        "mcvrp.storage.models", "model.md.j2", card=card, steps=steps, measured=measured, pictured=pictured
    )
