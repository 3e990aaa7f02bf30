"""Finished models in the store: numbered versions under a name, weights and a card each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load

from model.errors import McvrpError
from model.problem import City
from storage import layout
from storage.checkpoints import WEIGHTS, CheckpointState, checkpoint_bytes
from storage.store import Store

if TYPE_CHECKING:
    from model.network import FmMcvrp

MODEL_FORMAT = 1
_WEIGHTS, _CARD = "model.safetensors", "model.json"


@dataclass(frozen=True)
class ModelCard:
    """What a model is and where it comes from; written after the weights, which it vouches for.

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
    format: int = MODEL_FORMAT

    @property
    def folder(self) -> str:
        """The model's path in the store."""
        return layout.model_dir(self.name, self.version)

    def require_city(self, city: City) -> None:
        """Raise McvrpError if the model is of another city than ``city``."""
        if city.city_id != self.city_id:
            raise McvrpError(
                f"model {self.name!r} version {self.version} routes city {self.city_id}, "
                f"not city {city.city_id}"
            )


def export_model(
    store: Store, name: str, checkpoint: CheckpointState, *, dataset: str, rotation_trained: bool
) -> ModelCard:
    """Publish the weights of ``checkpoint`` as the next version of ``name``.

    If the latest version has these weights already, nothing is written and its card returned.
    """
    known = versions(store, name)
    if known:
        card = model_card(store, name, known[-1])
        if card.weights_sha256 == checkpoint.weights_sha256 and card.city_id == checkpoint.origin.city_id:
            return card
    data = checkpoint_bytes(store, checkpoint, WEIGHTS)
    card = ModelCard(
        name=name,
        version=known[-1] + 1 if known else 1,
        city_id=checkpoint.origin.city_id,
        network=checkpoint.origin.network,
        run=checkpoint.run,
        dataset=dataset,
        fingerprint=checkpoint.origin.fingerprint,
        rotation_trained=rotation_trained,
        metrics=checkpoint.metrics,
        weights_bytes=len(data),
        weights_sha256=checkpoint.weights_sha256,
    )
    store.put(f"{card.folder}/{_WEIGHTS}", data)
    store.put_json(f"{card.folder}/{_CARD}", asdict(card))
    return card


def versions(store: Store, name: str) -> list[int]:
    """Return the numbers of the versions of ``name``, ascending."""
    found = [path.split("/") for path in store.list(layout.models_dir(name))]
    return sorted(int(parts[-2]) for parts in found if parts[-1] == _CARD and parts[-2].isdigit())


def model_card(store: Store, name: str, version: int | None = None) -> ModelCard:
    """Return the card of a version of ``name``, the latest without a number.

    Raises
    ------
    McvrpError
        If there is no such model, or its card is none.
    """
    known = versions(store, name)
    if not known:
        raise McvrpError(f"there is no model {name!r} in {store.url()}: run mcvrp train")
    if version is not None and version not in known:
        raise McvrpError(f"model {name!r} has no version {version}, it has {', '.join(map(str, known))}")
    path = f"{layout.model_dir(name, version or known[-1])}/{_CARD}"
    try:
        card = ModelCard(**store.get_json(path))
    except TypeError as error:
        raise McvrpError(f"{store.url(path)} is no model's card ({error})") from error
    if card.format != MODEL_FORMAT:
        raise McvrpError(f"{store.url(path)} has format {card.format}, this program reads {MODEL_FORMAT}")
    return card


def load_model(store: Store, name: str, version: int | None = None) -> tuple[FmMcvrp, ModelCard]:
    """Return a model on the processor, ready to decode, and its card.

    Raises
    ------
    McvrpError
        If there is no such model, or its weights are not the ones that were written.
    """
    import torch  # here: publishing and listing models needs no torch, and its import takes seconds

    from model.network import FmMcvrp, NetworkConfig

    card = model_card(store, name, version)
    path = f"{card.folder}/{_WEIGHTS}"
    data = store.get(path)
    found = hashlib.sha256(data).hexdigest()
    if found != card.weights_sha256:
        raise McvrpError(
            f"{store.url(path)} is damaged: its checksum is {found[:12]}, the card names "
            f"{card.weights_sha256[:12]}; delete the version and export it again with mcvrp train"
        )
    network = FmMcvrp(NetworkConfig(**card.network))
    network.load_state_dict({key: torch.from_numpy(np.array(a)) for key, a in load(data).items()})
    return network.eval(), card
