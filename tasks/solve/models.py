"""Model of a day: the version that is chosen, and the model of a city if none is named."""

from __future__ import annotations

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.models.models import ModelCard, model_card, versions
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.text import listed


def chosen_model(store: Store, name: str, version: int | str | None) -> ModelCard:
    """Return the card of a version (default: the champion, otherwise the latest); raises as `model_card`."""
    if version is None and pointer(store, name, "champion").version is not None:
        version = "champion"
    return model_card(store, name, None if version == "latest" else version)  # type: ignore[arg-type]


def model_of(store: Store, city: City, name: str, usual: str) -> tuple[str | None, str]:
    """Return the model of ``city``, called ``name``: ``usual`` if it is one, otherwise the only one.

    None, and the reason, if there is none. McvrpError if there are several.
    """
    models, reason = [], f"the store has no model of city {name!r}"
    for model in sorted(store.folders("models"), key=lambda each: (each != usual, each)):
        card = chosen_model(store, model, None) if versions(store, model) else None
        if card is None or not city.accepts(card.city_id):
            continue
        try:
            card.require_city(city, name)
        except McvrpError as error:  # it has too few output classes
            reason = str(error)
            continue
        if model == usual:
            return model, ""
        models.append(model)
    if len(models) > 1:
        raise McvrpError(f"city {name!r} has several models, {listed(models)}: name one by --model")
    return (models[0], "") if models else (None, reason)
