"""The stage that makes a city, once: asked again it returns what is there."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from model.errors import McvrpError
from model.problem import City
from storage.cities import has_city, load_city, save_city
from storage.layout import NAME_PATTERN
from storage.store import Store


class CitySpec(BaseModel):
    """A synthetic city, uniform on the unit square with the depot at its centre (Sec. 5.1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("city", pattern=NAME_PATTERN, description="Name of the city in the store")
    customers: int = Field(10_000, ge=1, le=1_000_000, description="Number of customers")
    seed: int = Field(1, ge=0, description="Names the city: another seed places other customers")


def planned_city(store: Store, spec: CitySpec) -> City:
    """Return the city that ``spec`` describes; nothing is written.

    Raises
    ------
    McvrpError
        If another city has its name.
    """
    city = City.uniform(spec.customers, spec.seed)
    if has_city(store, spec.name):
        there = load_city(store, spec.name)
        if there.city_id != city.city_id:
            raise McvrpError(
                f"{store.url()} has another city named {spec.name!r} ({there.customers} customers, id "
                f"{there.city_id}; asked for {city.customers}, seed {spec.seed}, id {city.city_id}): "
                "give this one another name"
            )
    return city


def make_city(store: Store, spec: CitySpec) -> City:
    """Return the city that ``spec`` describes, written to ``store`` unless it is there.

    Raises as `planned_city` does.
    """
    city = planned_city(store, spec)
    if not has_city(store, spec.name):
        save_city(store, spec.name, city)
    return city
