"""Published models: numbered versions under a name, each with weights and cards.

A version is a folder: `config.json` (what other programs need to load it; written first, by exactly one
publisher, it reserves the number), `model.safetensors`, `losses.png`, `README.md` (card for people) and
`model.json` (card for programs; written last: without it the version does not exist).
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from mcvrp.model.errors import McvrpError, alternatives, shown
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.models.card import ModelCard as ModelCard, model_config, model_readme
from mcvrp.storage.models.registry import ALIASES, enrol, numbers_of, pointer, versions as versions
from mcvrp.storage.models.weights import MODEL_WEIGHTS, Arrays, network_of_weights, read_weights
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.provenance import Parent, made
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import WEIGHTS, CheckpointState, checkpoint_bytes

if TYPE_CHECKING:
    from mcvrp.model.network import FmMcvrp


def publish_model(
    store: Store,
    name: str,
    checkpoint: CheckpointState,
    *,
    dataset: str,
    rotation_trained: bool,
    city: str | None = None,
    city_parent: Parent | None = None,
) -> ModelCard:
    """Publish the weights of ``checkpoint`` as the next version of ``name``, enrol it, and return its card.

    The other parameters are fields of its card, and its city as one of its parents. Idempotent: if a version
    has these weights already, its card is returned, and a publication that was interrupted is completed.
    """
    origin = checkpoint.origin
    if published := _published(store, name, checkpoint.weights_sha256, origin.city_id):
        return published
    data = checkpoint_bytes(store, checkpoint, WEIGHTS)
    # labels and city, too: garbage collection removes runs before models
    parents = [
        checkpoint.as_parent,
        Parent(layout.label_dir(dataset), origin.fingerprint) if origin.fingerprint else None,
        city_parent,
    ]
    card = ModelCard(
        name=name,
        version=0,
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
        steps=checkpoint.steps,
        city=city,
        provenance=made(parents, checkpoint.provenance),
    )
    card = replace(card, version=_take_number(store, name, model_config(card)))
    store.put(f"{card.folder}/{MODEL_WEIGHTS}", data)
    if plot := store.find(layout.run_losses(checkpoint.run)):
        store.put(layout.model_losses(card.name, card.version), plot)
    store.put(f"{card.folder}/README.md", model_readme(card, plotted=bool(plot)).encode())
    store.put_json(layout.model_card(card.name, card.version), asdict(card))  # the version exists from here
    enrol(store, card.name, card.version)
    return card


def _published(store: Store, name: str, weights_sha256: str, city_id: str) -> ModelCard | None:
    """Return the last version of ``name`` with these weights for this city, None without one."""
    paths = [layout.model_card(name, version) for version in sorted(numbers_of(store, name), reverse=True)]
    for path, data in zip(paths, in_parallel(store.find, paths), strict=True):
        card = _card(store, path, data) if data is not None else None  # a number without a version
        if card and (card.weights_sha256, card.city_id) == (weights_sha256, city_id):
            enrol(store, name, card.version)  # its publisher may have been interrupted before this
            return card
    return None


def _take_number(store: Store, name: str, config: bytes) -> int:
    """Reserve a version number by ``config``; publishers get different ones, none a former champion's.

    If the latest number has the same config, its publisher was interrupted or publishes the same weights
    right now: both write the same bytes, so the number is shared.
    """
    number = max(numbers_of(store, name), default=0)
    while number and not store.list(layout.model_dir(name, number)):
        number -= 1  # an empty folder: its publisher was interrupted before it had reserved the number
    champion = pointer(store, name, "champion")  # it may be deleted and published again
    former = [move.version or 0 for move in champion.history if move.version != champion.version]
    path = layout.model_config(name, number)
    while store.find(path) != config:
        number = max(number, *former, 0) + 1
        path = layout.model_config(name, number)
        if store.put_new(path, config):
            break
    return number


def model_card(store: Store, name: str, version: int | str | None = None) -> ModelCard:
    """Return the card of a version of ``name``, by number, alias or "latest", which is the default.

    McvrpError if there is no such model or version, or its card is corrupt.
    """
    if version in ALIASES:
        number = pointer(store, name, version).version
    elif version is None or version == "latest":
        number = None
    elif (number := layout.version_number(str(version))) is None:
        raise McvrpError(f"{shown(version)} is no version: give a number, {', '.join(ALIASES)} or latest")
    if number is not None:
        path = layout.model_card(name, number)
        if (data := store.find(path)) is not None:
            return _card(store, path, data)
    numbers = versions(store, name)
    if not numbers:
        others = alternatives(name, store.folders("models"))
        raise McvrpError(
            f"there is no model {name!r} in {store.url()}{others}: run mcvrp train with its preset (in the "
            "UI: the flow train)"
        )
    if number is not None or version in ALIASES:
        wanted = version if number is None else f"version {number}"
        raise McvrpError(
            f"model {name!r} has no {wanted}, it has version {', '.join(map(str, numbers))}: name one by its "
            f"number, or make one the champion (mcvrp promote {name} VERSION)"
        )
    path = layout.model_card(name, numbers[-1])
    return _card(store, path, store.get(path))


def chosen_model(store: Store, name: str, version: int | str | None) -> ModelCard:
    """Return the card of a version (default: the champion, otherwise the latest); raises as `model_card`."""
    if version is None and pointer(store, name, "champion").version is not None:
        version = "champion"
    return model_card(store, name, version)


def _card(store: Store, path: str, data: bytes) -> ModelCard:
    hint = "restore it, or remove the version's folder"
    return as_document(data, ModelCard, store.url(path), named="model's card", hint=hint)


def load_model(store: Store, name: str, version: int | str | None = None) -> tuple[FmMcvrp, ModelCard]:
    """Return a model on the CPU, ready to decode, and its card.

    ``name`` and ``version`` are as in `model_card`. McvrpError if there is no such model, its weights are
    corrupt, or do not fit its network.
    """
    card = model_card(store, name, version)
    where = store.url(layout.model_card(name, card.version))
    network = network_of_weights(card.network, model_weights(store, card), where, _train_again(store, card))
    network.city_id, network.city = card.city_id, card.city
    return network, card


def model_weights(store: Store, card: ModelCard) -> Arrays:
    """Return the weights of a version in the store by parameter name; McvrpError if they are corrupt."""
    return read_weights(store, card.folder, card.weights_sha256, _train_again(store, card))


def _train_again(store: Store, card: ModelCard) -> str:
    command = "aws s3 rm --recursive" if "://" in store.uri else "rm -r"
    folder = shlex.quote(store.url(card.folder))
    return f"run {command} {folder} and mcvrp train, which publishes it again"
