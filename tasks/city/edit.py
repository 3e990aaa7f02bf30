"""Changes of a stored city that its id does not cover, and its removal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import Rules
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, city_names, stored_city
from mcvrp.storage.models.registry import numbers_of
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city
from mcvrp.tasks.city.spec import AddressFile, CitySpec, PlannedCity
from mcvrp.tasks.support.text import listed


def change_city(store: Store, stored: StoredCity, new: AddressFile) -> PlannedCity:
    """Write the ranges, names of columns and order of dates of ``new`` to the city ``stored``.

    Returns the city, with a note on labels that were made with other ranges. An interrupted call can be
    repeated.
    """
    name, path = stored.name, layout.city_card(stored.name)
    fields = new.model_dump(mode="json", include={"demand", "capacity", "columns", "dates"})
    store.delete(layout.city_readme(name))
    store.put_json(path, {**store.get_json(path), **fields})
    made = make_city(store, CitySpec(name=name, source="imported"))  # writes the card again
    rules = Rules.of(made.city, None, None)
    ranges = [list(both) if both else None for both in (rules.demand, rules.capacity)]
    specs = dict(_specs(store, stored.city.city_id))
    others = [key for key in specs if [specs[key].get("demand"), specs[key].get("capacity")] != ranges]
    note = (
        f"the labels {listed(others)} have other ranges: they and their models remain valid, but the models "
        "have not learned the new ones, which need labels of another name (label.dataset) and training"
    )
    return replace(made, notes=(note,) if others else ())


def remove_city(store: Store, name: str) -> None:
    """Remove the city ``name``; McvrpError names the first day, dataset, model or city that refers to it."""
    if used := next(_references(store, stored_city(store, name)), None):
        raise McvrpError(f"{store.url(used)} refers to city {name!r}: only an unused city can be removed")
    store.delete(layout.city_card(name))  # first: a city without a card does not exist
    store.delete(layout.city_dir(name))


def _references(store: Store, stored: StoredCity) -> Iterator[str]:
    city_id = stored.city.city_id
    yield from store.list(layout.driven_days_dir(stored.name))
    yield from (layout.label_dir(dataset) for dataset, _ in _specs(store, city_id))
    cards = [
        *(
            layout.model_card(model, number)
            for model in store.folders("models")
            for number in numbers_of(store, model)
        ),
        *(
            layout.attention_card(model, n)
            for model in store.folders("attention")
            for folder in store.folders(layout.attention_dir(model))
            if (n := layout.size_of(folder)) is not None
        ),
        *(f"{layout.benchmark_dir(run)}/summary.json" for run in store.folders("benchmarks")),
    ]
    for path in cards:
        if store.exists(path) and store.get_json(path).get("city_id") == city_id:
            yield path
    for other in city_names(store):
        if store.get_json(layout.city_card(other)).get("parent") == city_id:
            yield layout.city_dir(other)


def _specs(store: Store, city_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and specs of the datasets of the city ``city_id``."""
    for dataset in store.folders("labels"):
        path = layout.label_spec(dataset)
        if store.exists(path) and (spec := store.get_json(path)).get("city_id") == city_id:
            yield dataset, spec
