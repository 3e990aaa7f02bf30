"""Self-contained model folders: a model with its city, usable without a store."""

from __future__ import annotations

from dataclasses import asdict, replace

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, find_cities, find_city, save_city, stored_city
from mcvrp.storage.models.card import model_config, model_readme
from mcvrp.storage.models.models import (
    ModelCard,
    folder_card,
    load_model,
    model_card,
    model_weights,
    publish,
    versions,
)
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.models.weights import MODEL_WEIGHTS
from mcvrp.storage.store.store import Store


def export_folder(store: Store, card: ModelCard, to: Store, city: str | None = None) -> None:
    """Write the version of ``card`` to the empty folder ``to``: weights, config, cards, city.

    ``city`` is the name of the city, see `city_of`. McvrpError if the folder is not empty, the weights are
    corrupt, or the city is missing or ambiguous.
    """
    if to.files("", hidden=True):
        raise McvrpError(f"{to.url()} is not empty: name an empty or a new folder")
    stored = city_of(store, card, city)
    card = replace(card, city=stored.name, ids_sha256=stored.ids_sha256(card.city_id))
    model_weights(store, card)  # verifies them: a corrupt export could not be repaired
    save_city(to, stored.name, stored.city, stored.addresses, stored.provenance)
    to.put(MODEL_WEIGHTS, store.get(f"{card.folder}/{MODEL_WEIGHTS}"))
    to.put("config.json", model_config(card))
    losses = layout.model_losses(card.name, card.version)
    if plotted := store.exists(losses):
        to.put("losses.png", store.get(losses))
    to.put("README.md", model_readme(card, plotted=plotted, city=stored.name).encode())
    to.put_json(layout.folder_card, asdict(card))  # written last, as in the store


def city_of(store: Store, card: ModelCard, name: str | None = None) -> StoredCity:
    """Return the city of the model of ``card``, by default the one with the ids that it was trained with.

    The id of a city does not tell how its customers are numbered: with the ids of another list, routes would
    lead to the wrong customers. McvrpError if there is no such city, the city ``name`` is another one, or the
    cities with its id differ in the ids of their customers and the card does not tell which is right.
    """
    if name is not None:
        stored = stored_city(store, name)
        card.require_city(stored.city, stored.name)
        return stored
    cities = sorted(find_cities(store, card.city_id), key=lambda each: each.name != card.city)
    if not cities:
        find_city(store, card.city_id)  # raises the error
    by_ids = {each.ids_sha256(card.city_id): each for each in reversed(cities)}
    if card.ids_sha256 in by_ids:
        return by_ids[card.ids_sha256]
    if card.ids_sha256 is None and len(by_ids) == 1:
        return cities[0]
    names = ", ".join(sorted(each.name for each in cities))
    raise McvrpError(
        f"the places of model {card.name!r} are in {store.url()} as {names}, with other ids of customers"
        f"{'' if card.ids_sha256 is None else ' than it was trained with'}: give --city NAME, the one whose "
        "ids your orders have"
    )


def folder_city(folder: Store) -> StoredCity:
    """Return the city of the model in ``folder``; McvrpError if it does not have exactly one."""
    names = folder.folders("cities")
    if len(names) != 1:
        raise McvrpError(f"{folder.url('cities')} has {len(names)} cities, not one: export the model again")
    return stored_city(folder, names[0])


def import_folder(folder: Store, store: Store, name: str | None = None) -> ModelCard:
    """Publish the model in ``folder`` as the next version of ``name`` (default: its own), with its city.

    McvrpError if the model cannot be loaded, or the store has another city of the same name; nothing is
    written.
    """
    card, stored = folder_card(folder), folder_city(folder)
    card = replace(card, name=layout.checked_name("model", name or card.name))
    card.require_city(stored.city, stored.name)
    load_model(folder.uri)  # verifies that it can be loaded
    weights = folder.get(MODEL_WEIGHTS)
    if len(weights) != card.weights_bytes:
        raise McvrpError(
            f"{folder.url(layout.folder_card)} has weights_bytes = {card.weights_bytes:,}, but the weights "
            f"have {len(weights):,} bytes: export the model again with mcvrp models export"
        )
    pictures = [folder.get("losses.png")] if folder.exists("losses.png") else []
    # Read all that publishing reads before the city is written, so that a failed import leaves nothing.
    for version in versions(store, card.name):
        model_card(store, card.name, version)
    pointer(store, card.name, "champion")
    ids = stored.ids_sha256(card.city_id)
    card = replace(card, city=stored.name, ids_sha256=ids)
    if not any(each.ids_sha256(card.city_id) == ids for each in find_cities(store, card.city_id)):
        if store.exists(layout.city_card(stored.name)):
            raise McvrpError(
                f"{store.url(layout.city_dir(stored.name))} is not the model's city: rename "
                f"{folder.url(layout.city_dir(stored.name))}"
            )
        save_city(store, stored.name, stored.city, stored.addresses, stored.provenance)
    return publish(store, card, weights, *pictures)
