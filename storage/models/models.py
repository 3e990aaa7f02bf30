"""Finished models in the store: numbered versions under a name, each with weights and cards.

A version is a folder: `config.json` (what is needed to load it; written first, and by one
publisher only, it takes the number), `model.safetensors`, `losses.png`, `README.md` (the card for
people) and `model.json` (where it comes from; written last: without it there is no version).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, overload

from pydantic import Field, Strict

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.models.readme import model_config, model_readme
from mcvrp.storage.models.registry import ALIASES, Alias, enrol, pointer
from mcvrp.storage.models.weights import MODEL_WEIGHTS, read_weights
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import WEIGHTS, Arrays, CheckpointState, checkpoint_bytes
from mcvrp.storage.versions import MODEL

if TYPE_CHECKING:
    from mcvrp.model.network import FmMcvrp

_AGAIN = "delete the version and export it again with mcvrp train"
_EXPORT_AGAIN = "export the model again with mcvrp models export"

# What a card is read with: it may come from anybody (`mcvrp models import`).
_Name = Annotated[str, Field(pattern=layout.NAME_PATTERN)]
_Hash = Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Figure = Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)] | None


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
    steps
        Of its last phase; None likewise.
    """

    name: _Name
    version: _Count
    city_id: _Hash
    network: Mapping[str, Any]
    run: _Name
    dataset: _Name
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{0,64}$")]  # "" if no label was read
    rotation_trained: Annotated[bool, Strict()]
    metrics: Mapping[str, _Figure]
    weights_bytes: _Count
    weights_sha256: _Hash
    smallest: _Count | None = None
    largest: _Count | None = None
    steps: _Count | None = None
    format: int = MODEL.version

    def __post_init__(self) -> None:
        if self.smallest and self.largest and self.smallest > self.largest:
            raise ValueError(f"smallest is {self.smallest}, largest {self.largest}")

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
                f"not city {city.city_id}: name a model of this city, or train one"
            )
        classes = self.network.get("classes")
        if type(classes) is not int:
            raise McvrpError(
                f"the card of model {self.name!r} version {self.version} does not say how many "
                "output classes it has: remove the version, and train it again"
            )
        if classes < city.customers + 1:
            raise McvrpError(
                f"model {self.name!r} version {self.version} has {classes:,} output classes, city "
                f"{city.city_id} needs {city.customers + 1:,}: train a new model, the labels hold"
            )


def export_model(
    store: Store, name: str, checkpoint: CheckpointState, *, dataset: str, rotation_trained: bool
) -> ModelCard:
    """Publish the weights of ``checkpoint`` as the next version of ``name``, and enrol it.

    What happens if a version has these weights already, `publish` says.
    """
    origin = checkpoint.origin
    if there := _published(store, name, checkpoint.weights_sha256, origin.city_id):
        return there
    losses = layout.run_losses(checkpoint.run)
    data = checkpoint_bytes(store, checkpoint, WEIGHTS)
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
    )
    return publish(store, card, data, *([store.get(losses)] if store.exists(losses) else []))


def publish(store: Store, card: ModelCard, weights: bytes, losses: bytes = b"") -> ModelCard:
    """Publish a model as the next version of the name on its ``card``, and enrol it; return its new card.

    If a version has these weights already, its card is returned and nothing written, but for the alias of
    the latest version, whose publisher may have been stopped; one that was stopped half-way is finished.
    """
    if there := _published(store, card.name, card.weights_sha256, card.city_id):
        return there
    card = replace(card, version=_take_number(store, card.name, model_config(card)))
    store.put(f"{card.folder}/{MODEL_WEIGHTS}", weights)
    if losses:
        store.put(layout.model_losses(card.name, card.version), losses)
    store.put(f"{card.folder}/README.md", model_readme(card, pictured=bool(losses)).encode())
    store.put_json(
        layout.model_card(card.name, card.version), asdict(card)
    )  # from here on there is a version
    enrol(store, card.name, card.version)
    return card


def _published(store: Store, name: str, weights_sha256: str, city_id: str) -> ModelCard | None:
    """Return the last version of ``name`` that has these weights for this city, None if there is none."""
    known = versions(store, name)
    for version in reversed(known):
        card = model_card(store, name, version)
        if (card.weights_sha256, card.city_id) == (weights_sha256, city_id):
            if version == known[-1]:
                enrol(store, name, version)  # a publisher may have been stopped just before
            return card
    return None


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
    return {number for folder in folders if (number := layout.version_of(folder)) is not None}


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
    numbers = ", ".join(map(str, known))
    if version in ALIASES:
        alias = version
        version = pointer(store, name, alias).version
        if version is None:
            raise McvrpError(
                f"model {name!r} has no {alias}, it has version {numbers}: name one by its number"
            )
    if version is not None and version not in known:
        raise McvrpError(f"model {name!r} has no version {version}, it has {numbers}: name one of these")
    path = layout.model_card(name, known[-1] if version is None else int(version))
    hint = "restore it, or remove the version's folder"
    return read_document(store, path, ModelCard, MODEL, named="model's card", hint=hint)


def named_version(store: Store, name: str, version: str) -> ModelCard:
    """Return the card of a version of ``name`` as people name it: a number, an alias, or "latest".

    Raises
    ------
    McvrpError
        If there is no such model or version.
    """
    if version == "latest":
        return model_card(store, name)
    if version in ALIASES:
        return model_card(store, name, version)
    if (number := layout.version_number(version)) is not None:
        return model_card(store, name, number)
    raise McvrpError(f"{shown(version)} is no version: give a number, {', '.join(ALIASES)} or latest")


def open_folder(place: str | PathLike[str]) -> Store:
    """Return the folder at ``place`` that one model was exported into; McvrpError if it is none."""
    hint = "name a folder that mcvrp models export has written"
    try:
        folder = Store.open(place, writable=False)
    except StoreError as error:
        raise McvrpError(f"there is no folder {place}: {hint}") from error
    if not folder.exists(layout.folder_card):
        raise McvrpError(f"{folder.url()} has no {layout.folder_card}: {hint}")
    return folder


def folder_card(folder: Store) -> ModelCard:
    """Return the card of the model in ``folder``, which was exported; McvrpError if it is none."""
    return read_document(
        folder, layout.folder_card, ModelCard, MODEL, named="model's card", hint=_EXPORT_AGAIN
    )


@overload
def load_model(place: str | PathLike[str]) -> tuple[FmMcvrp, ModelCard]: ...
@overload
def load_model(place: Store, name: str, version: int | Alias | None = None) -> tuple[FmMcvrp, ModelCard]: ...
def load_model(
    place: Store | str | PathLike[str], name: str = "", version: int | Alias | None = None
) -> tuple[FmMcvrp, ModelCard]:
    """Return a model on the processor, ready to decode, and its card.

    Parameters
    ----------
    place
        The store, or a folder that one model was exported into.
    name, version
        Of a model in the store, as in `model_card`.

    Raises
    ------
    McvrpError
        If there is no such model, its weights are not the ones that were written, or not its network's.
    """
    from mcvrp.storage.models.networks import network_of_weights  # here: its torch takes seconds to import

    store = place if isinstance(place, Store) else open_folder(place)
    if isinstance(place, Store):
        card, folder, hint = model_card(store, name, version), None, _AGAIN
        where = layout.model_card(name, card.version)
    else:
        card, folder, hint, where = folder_card(store), "", _EXPORT_AGAIN, layout.folder_card
    weights = model_weights(store, card, folder)
    return network_of_weights(card.network, weights, store.url(where), hint), card


def model_weights(store: Store, card: ModelCard, folder: str | None = None) -> Arrays:
    """Return the weights of the version that ``card`` is of, by parameter name.

    ``folder`` says where they lie if not at their place in the store.

    Raises
    ------
    McvrpError
        If they are not the ones that were written.
    """
    folder, hint = (card.folder, _AGAIN) if folder is None else (folder, _EXPORT_AGAIN)
    return read_weights(store, folder, card.weights_sha256, hint)
