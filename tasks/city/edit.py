"""Changes of a stored city that its id does not cover, and its removal."""

from __future__ import annotations

from collections.abc import Iterator

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, city_names, stored_city
from mcvrp.storage.models.registry import numbers_of
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city
from mcvrp.tasks.city.spec import AddressFile, CitySpec, PlannedCity


def change_city(store: Store, stored: StoredCity, new: AddressFile) -> PlannedCity:
    """Write the ranges, names of columns and order of dates of ``new`` to the city ``stored``.

    Returns the city. An interrupted call can be repeated.
    """
    name, path = stored.name, layout.city_card(stored.name)
    fields = new.model_dump(mode="json", include={"demand", "capacity", "columns", "dates"})
    store.delete(layout.city_readme(name))
    store.put_json(path, {**store.get_json(path), **fields})
    return make_city(store, CitySpec(name=name, source="imported"))  # writes the card again


def remove_city(store: Store, name: str) -> None:
    """Remove the city ``name``; McvrpError names the first day, dataset, model or city that refers to it."""
    if used := next(_references(store, stored_city(store, name)), None):
        raise McvrpError(f"{store.url(used)} refers to city {name!r}: only an unused city can be removed")
    store.delete(layout.city_card(name))  # first: a city without a card does not exist
    store.delete(layout.city_dir(name))


def _references(store: Store, stored: StoredCity) -> Iterator[str]:
    city_id = stored.city.city_id
    yield from store.list(layout.driven_days_dir(stored.name))
    cards = [
        *(layout.label_spec(dataset) for dataset in store.folders("labels")),
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
