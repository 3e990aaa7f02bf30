"""Cities of a store: created, a repeated call returns the existing one; changed, removed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import RoadFacts, StoredCity, city_names, has_city, save_city, stored_city
from mcvrp.storage.provenance import OUTSIDE, Parent, Provenance, made
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.spec import AddressFile as AddressFile, CitySpec as CitySpec, PlannedCity as PlannedCity
from mcvrp.tasks.files.file_bytes import IN_STORE, file_bytes

_SETTINGS = ("demand", "capacity", "classes")  # that the id of a city does not cover


def plan_city(store: Store, spec: CitySpec, cache: Path | None = None) -> PlannedCity:
    """Return the city that ``spec`` describes, without writing it to the store.

    ``cache`` is the folder for what is made of roads, without which they cannot be asked. McvrpError if the
    store has another city of that name, or none to refer to, or the file is invalid.
    """
    stored = stored_city(store, spec.name) if has_city(store, spec.name) else None
    if spec.source == "imported" and spec.addresses is None:
        if stored is None:
            raise McvrpError(
                f"there is no city {spec.name!r} in {store.url()}: "
                f"run mcvrp city import FILE --name {spec.name}"
            )
        return PlannedCity(
            stored.city,
            None if stored.source == "synthetic" else stored.addresses,
            stored.roads,
            exists=True,
        )
    if spec.addresses is None:
        planned = PlannedCity(City.uniform(spec.customers, spec.seed), None)
        what = f"the spec: {spec.customers} customers, seed {spec.seed}"
    else:
        from mcvrp.tasks.city.importer import extend_city, import_city  # slow import

        file = spec.addresses
        parent = stored_city(store, file.extends) if file.extends else None
        if parent:
            planned = extend_city(store, parent, file, cache, stored)
        else:
            planned = import_city(store, file, cache, stored)
        what = f"{spec.addresses.file}: {planned.city.customers} customers"
    if stored:
        _check_same(store, stored, planned, what)
    return _renewed(stored, planned) if stored else planned


def make_city(store: Store, spec: CitySpec, cache: Path | None = None) -> PlannedCity:
    """Return the city of `plan_city`, and write it with its card unless it exists.

    Of an existing city, only further columns of its addresses (names, streets) are replaced if they differ.
    """
    planned = plan_city(store, spec, cache)
    new = not planned.exists
    if new or not store.exists(layout.city_readme(spec.name)):
        from mcvrp.tasks.city.card import write_city_card

        provenance = (
            _provenance(store, spec, planned.roads) if new else stored_city(store, spec.name).provenance
        )
        write_city_card(store, spec.name, planned.city, planned.addresses, provenance, planned.roads)
    # after the README: an interruption in between leaves no city, and the next call writes both
    if new:
        save_city(store, spec.name, planned.city, planned.addresses, provenance, planned.roads)
    return planned


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
    for path in chain.from_iterable(map(store.list, ("labels", "models", "attention", "benchmarks"))):
        if path.endswith(".json") and city_id.encode() in store.get(path):
            yield path
    for other in city_names(store):
        if store.get_json(layout.city_card(other)).get("parent") == city_id:
            yield layout.city_dir(other)


def _provenance(store: Store, spec: CitySpec, roads: RoadFacts | None) -> Provenance:
    """Return the provenance of a city: its files, and the city that it extends."""
    if (file := spec.addresses) is None:
        return made([])
    name, data = file_bytes(store, file.file)
    inside = file.file.startswith(IN_STORE)
    path = file.file.removeprefix(IN_STORE).strip("/") if inside else f"{OUTSIDE}{name}"
    parents = [Parent(path, hashlib.sha256(data).hexdigest())]
    if roads and roads.extract:
        parents.append(Parent(f"{OUTSIDE}{roads.source}", roads.extract))
    if file.extends:
        parents.append(Parent(layout.city_dir(file.extends), stored_city(store, file.extends).city.city_id))
    return made(parents)


def _renewed(stored: StoredCity, planned: PlannedCity) -> PlannedCity:
    """Return ``planned``, which is ``stored``, with the names and streets of its file, if it has such."""
    old, new = stored.addresses, planned.addresses
    if new is None:
        return replace(planned, exists=True)
    new = replace(
        new,
        further=new.further or old.further,
        columns=new.columns or old.columns,
        dates=new.dates or old.dates,
    )
    kept, now = ((dict(each.further), dict(each.columns), each.dates) for each in (old, new))
    notes = () if kept == now else ("further columns of its addresses were updated",)
    return replace(planned, addresses=new, notes=(*planned.notes, *notes), exists=not notes)


def _check_same(store: Store, stored: StoredCity, planned: PlannedCity, what: str) -> None:
    old, new = stored.city, planned.city
    if old.city_id != new.city_id:
        raise McvrpError(
            f"{store.url()} has another city named {stored.name!r} ({old.customers} customers, id "
            f"{old.city_id}; {what}, id {new.city_id}): choose another name, extend it (mcvrp city extend "
            f"{stored.name}), or remove it if nothing refers to it (mcvrp city remove {stored.name})"
        )
    differing = [name for name in _SETTINGS if getattr(old, name) != getattr(new, name)]
    if planned.addresses is not None and planned.addresses.ids != stored.addresses.ids:
        differing.append("ids")
    if differing:
        raise McvrpError(
            f"{store.url()} has city {stored.name!r} with the same addresses but other "
            f"{' and '.join(differing)}: choose another name, or change ranges by mcvrp city set "
            f"{stored.name}"
        )
