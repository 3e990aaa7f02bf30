"""`mcvrp city create`, `import` and `extend`."""

from __future__ import annotations

import re
import time
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
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city
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


def extend_city(common: Common, city: str, new: NewAddresses, name: str) -> Outcome:
    """Create the city ``name`` from another one and a file of addresses."""
    return _made(writing(common), _spec(common, name, new, {"extends": layout.checked_name("city", city)}))


def _spec(common: Common, name: str, new: NewAddresses, fields: dict[str, Any]) -> CitySpec:
    if common.overrides:
        raise McvrpError("mcvrp city import and extend use no preset: use their options instead of --set")
    given = {**vars(new), "columns": named_columns(new.columns) or None, **fields}
    addresses = {field: value for field, value in given.items() if value is not None}
    return checked(CitySpec, {"name": name, "source": "imported", "addresses": addresses})


def _made(store: Store, spec: CitySpec) -> Outcome:
    began = time.monotonic()
    summary = CitySummary.of(spec.name, make_city(store, spec), time.monotonic() - began)
    folder = store.url(layout.city_dir(spec.name))
    return Outcome(plain(summary), aligned({**city_figures(summary), "folder": folder}))
