"""A model as a folder of its own, with its city: it loads, routes and travels without a store."""

from __future__ import annotations

from dataclasses import asdict, replace

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, find_stored_city, save_city, stored_city
from mcvrp.storage.models.models import (
    ModelCard,
    folder_card,
    load_model,
    model_card,
    model_weights,
    publish,
    versions,
)
from mcvrp.storage.models.readme import model_config, model_readme
from mcvrp.storage.models.registry import ALIASES, pointer
from mcvrp.storage.models.weights import MODEL_WEIGHTS
from mcvrp.storage.store.store import Store


def export_folder(store: Store, card: ModelCard, to: Store) -> None:
    """Write the version that ``card`` is of into the empty folder ``to``: weights, config, cards, city.

    Raises
    ------
    McvrpError
        If the folder is not empty, the weights are not the ones that were written, or the city is gone.
    """
    if to.files("", hidden=True):
        raise McvrpError(f"{to.url()} is not empty: name a folder that is, or that is not there yet")
    stored = find_stored_city(store, card.city_id)
    model_weights(store, card)  # whoever takes the folder has nothing to mend it by
    save_city(to, stored.name, stored.city, stored.addresses)
    to.put(MODEL_WEIGHTS, store.get(f"{card.folder}/{MODEL_WEIGHTS}"))
    to.put("config.json", model_config(card))
    losses = layout.model_losses(card.name, card.version)
    if plotted := store.exists(losses):
        to.put("losses.png", store.get(losses))
    to.put("README.md", model_readme(card, plotted=plotted, city=stored.name).encode())
    to.put_json(layout.folder_card, asdict(card))  # written last, as in the store


def folder_city(folder: Store) -> StoredCity:
    """Return the city of the model in ``folder``; McvrpError unless it has one."""
    names = folder.folders("cities")
    if len(names) != 1:
        raise McvrpError(f"{folder.url('cities')} has {len(names)} cities, not one: export the model again")
    return stored_city(folder, names[0])


def import_folder(folder: Store, store: Store, name: str | None = None) -> ModelCard:
    """Publish the model in ``folder`` as the next version of ``name``, with its city where that is not there.

    Parameters
    ----------
    name
        Of the model in the store; the one that it had where it was exported if None.

    Raises
    ------
    McvrpError
        If the folder holds no whole model that can be loaded, or the store calls another city by the name of
        its city; nothing has been written then.
    """
    card, stored = folder_card(folder), folder_city(folder)
    card = replace(card, name=layout.checked_name("model", name or card.name))
    card.require_city(stored.city)
    load_model(folder.uri)  # what cannot be loaded is not published
    weights = folder.get(MODEL_WEIGHTS)
    if len(weights) != card.weights_bytes:
        raise McvrpError(
            f"{folder.url(layout.folder_card)} is no model's card (weights_bytes is {card.weights_bytes:,}, "
            f"the file has {len(weights):,}): export the model again with mcvrp models export"
        )
    pictures = [folder.get("losses.png")] if folder.exists("losses.png") else []
    # What publishing will read, it reads before the city is written: a refused import leaves nothing.
    for version in versions(store, card.name):
        model_card(store, card.name, version)
    for alias in ALIASES:
        pointer(store, card.name, alias)
    try:
        find_stored_city(store, card.city_id)
    except McvrpError:
        if store.exists(layout.city_card(stored.name)):
            raise McvrpError(
                f"{store.url(layout.city_dir(stored.name))} is another city than the model's: give "
                f"{folder.url(layout.city_dir(stored.name))} another name"
            ) from None
        save_city(store, stored.name, stored.city, stored.addresses)
    return publish(store, card, weights, *pictures)
