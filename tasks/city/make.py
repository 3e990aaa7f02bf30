"""The stage that makes a city, once: asked again it returns what is there."""

from __future__ import annotations

from dataclasses import dataclass

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity, has_city, save_city, stored_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.spec import AddressFile as AddressFile, CitySpec as CitySpec

_SETTINGS = ("demand", "capacity", "classes")  # of a city, beside what its id is of


@dataclass(frozen=True)
class PlannedCity:
    """A city as a spec describes it, and what there is to say about it.

    ``addresses`` is None for a synthetic city; ``there`` is whether the store has it.
    """

    city: City
    addresses: Addresses | None
    notes: tuple[str, ...]
    there: bool


def planned_city(store: Store, spec: CitySpec) -> City:
    """Return the city that ``spec`` describes; nothing is written.

    Raises
    ------
    McvrpError
        If another city has its name, it was to be imported before and is not there, or something is
        wrong with its file.
    """
    return plan_city(store, spec).city


def plan_city(store: Store, spec: CitySpec) -> PlannedCity:
    """Return the city that ``spec`` describes; errors as in `planned_city`."""
    there = stored_city(store, spec.name) if has_city(store, spec.name) else None
    if spec.source == "imported" and spec.addresses is None:
        if there is None:
            raise McvrpError(
                f"there is no city {spec.name!r} in {store.url()}: "
                f"run mcvrp city import FILE --name {spec.name}"
            )
        return PlannedCity(there.city, None if there.source == "synthetic" else there.addresses, (), True)
    if spec.addresses is None:
        asked = PlannedCity(City.uniform(spec.customers, spec.seed), None, (), there is not None)
        what = f"asked for {spec.customers}, seed {spec.seed}"
    else:
        asked = _from_file(store, spec.addresses, there is not None)
        what = f"{spec.addresses.file} has {asked.city.customers}"
    if there:
        _check_same(store, there, asked, what)
    return asked


def make_city(store: Store, spec: CitySpec) -> PlannedCity:
    """Return the city that ``spec`` describes, written to ``store`` with its card unless it is there.

    Raises as `planned_city` does.
    """
    planned = plan_city(store, spec)
    if not planned.there or not store.exists(layout.city_readme(spec.name)):
        from mcvrp.tasks.city.card import write_city_card

        write_city_card(store, spec.name, planned.city, planned.addresses)
    # behind the card for people: who is stopped between has no city yet, and makes both again
    if not planned.there:
        save_city(store, spec.name, planned.city, planned.addresses)
    return planned


def _from_file(store: Store, spec: AddressFile, there: bool) -> PlannedCity:
    from mcvrp.tasks.city.importer import extend_city, import_city

    parent = stored_city(store, spec.extends) if spec.extends else None
    made = extend_city(store, parent, spec) if parent else import_city(store, spec)
    return PlannedCity(made.city, made.addresses, made.notes, there)


def _check_same(store: Store, there: StoredCity, asked: PlannedCity, what: str) -> None:
    old, new = there.city, asked.city
    if old.city_id != new.city_id:
        mixed_up = there.source == "imported" and asked.addresses is None
        hint = ", or say city.source = imported for the one that is there" if mixed_up else ""
        raise McvrpError(
            f"{store.url()} has another city named {there.name!r} ({old.customers} customers, id "
            f"{old.city_id}; {what}, id {new.city_id}): give this one another name{hint}"
        )
    differing = [name for name in _SETTINGS if getattr(old, name) != getattr(new, name)]
    if asked.addresses is not None and asked.addresses.ids != there.addresses.ids:
        differing.append("ids")
    if differing:
        raise McvrpError(
            f"{store.url()} has city {there.name!r} of the same addresses with other "
            f"{' and '.join(differing)}: give this one another name"
        )
