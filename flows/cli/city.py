"""`mcvrp city create`, `import` and `extend`."""

from __future__ import annotations

import re
import time
from itertools import count
from pathlib import PurePath
from typing import Any

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.commands import NewAddresses
from mcvrp.flows.cli.output import aligned, named_columns, plain, writing
from mcvrp.flows.cli.stage import preset_of
from mcvrp.flows.config.parameters import checked
from mcvrp.flows.figures import CitySummary, city_figures
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import has_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city, plan_city
from mcvrp.tasks.city.spec import CitySpec


def create_city(common: Common) -> Outcome:
    """Create the city of the preset."""
    preset, spec = preset_of(common)
    store = writing(common)
    preset.record(store)
    return _made(store, spec.city)


def import_city(common: Common, new: NewAddresses, name: str | None, **fields: Any) -> Outcome:
    """Create a city from a file of addresses; ``fields`` are of its `AddressFile`."""
    stem = PurePath(new.file.split(":")[-1]).stem
    own = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "city"
    store = writing(common)
    return _made(store, _spec(common, name or own, new, fields))


def extend_city(common: Common, city: str, new: NewAddresses, name: str | None) -> Outcome:
    """Create a city from another one and a file of addresses.

    Its name is by default the first after that of the old one, "lyon-2", "lyon-3", …, that no other city has;
    it is that of the city itself if it exists, so that a repeated command makes no second one.
    """
    store, extends = writing(common), layout.checked_name("city", city)
    spec = _spec(common, name or extends, new, {"extends": extends})
    if not name:
        match = re.fullmatch(r"(.*)-(\d+)", extends)
        stem, number = (match[1], int(match[2])) if match else (extends, 1)
        numbered = (spec.model_copy(update={"name": f"{stem}-{k}"}) for k in count(number + 1))
        spec = next(each for each in numbered if not _is_taken(store, each))
    return _made(store, spec)


def _spec(common: Common, name: str, new: NewAddresses, fields: dict[str, Any]) -> CitySpec:
    if common.overrides:
        raise McvrpError("mcvrp city import and extend use no preset: use their options instead of --set")
    given = {**vars(new), "columns": named_columns(new.columns) or None, **fields}
    addresses = {field: value for field, value in given.items() if value is not None}
    return checked(CitySpec, {"name": name, "source": "imported", "addresses": addresses})


def _is_taken(store: Store, spec: CitySpec) -> bool:
    """Return whether another city has the name of ``spec``; McvrpError if ``spec`` is invalid itself."""
    exists = has_city(store, spec.name)
    try:
        plan_city(store, spec)
    except McvrpError:
        if not exists:
            raise
        return True
    return False


def _made(store: Store, spec: CitySpec) -> Outcome:
    began = time.monotonic()
    summary = CitySummary.of(spec.name, make_city(store, spec), time.monotonic() - began)
    folder = store.url(layout.city_dir(spec.name))
    return Outcome(plain(summary), aligned({**city_figures(summary), "folder": folder}))
