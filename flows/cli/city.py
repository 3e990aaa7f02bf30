"""`mcvrp city`: the spec of an imported city, and creating one with or without Prefect."""

from __future__ import annotations

import argparse
import re
import time
from itertools import count
from pathlib import PurePath

from pydantic import ValidationError

from mcvrp.flows.cli.commands import preset_of, run_stage
from mcvrp.flows.cli.output import Outcome, aligned, plain, writing
from mcvrp.flows.config.errors import field_errors
from mcvrp.flows.config.extras import has_pipeline
from mcvrp.flows.config.preset import Preset
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import InvalidFields, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import has_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city, plan_city
from mcvrp.tasks.city.spec import CitySpec

_FIELDS = ("matrix", "depot", "unit", "demand", "capacity", "history", "spare", "unrounded")


def create(options: argparse.Namespace) -> Outcome:
    """Create the city of the preset."""
    preset, spec = preset_of(options, ["city"])
    return _make(spec.city, writing(options), preset)


def import_or_extend(options: argparse.Namespace) -> Outcome:
    """Create a city from a file of addresses, or from a city and such a file."""
    if options.overrides:
        raise McvrpError(f"mcvrp city {options.action} uses no preset: use its options instead of --set")
    store = writing(options)
    spec = _spec(options, store)
    plan_city(store, spec)  # an invalid file is rejected before a server is started
    return _make(spec, store)


def _make(spec: CitySpec, store: Store, preset: Preset | None = None) -> Outcome:
    if has_pipeline():
        return run_stage(STAGES["city"], store, {"city": spec}, preset)
    from mcvrp.flows.figures import CitySummary, city_figures

    if preset:
        preset.record(store)
    began = time.monotonic()
    summary = CitySummary.of(spec.name, make_city(store, spec), time.monotonic() - began)
    folder = store.url(layout.city_dir(spec.name))
    return Outcome(plain(summary), aligned({**city_figures(summary), "folder": folder}))


def _spec(options: argparse.Namespace, store: Store) -> CitySpec:
    extends = options.city if options.action == "extend" else None
    fields = {name: value for name in _FIELDS if (value := getattr(options, name, None)) is not None}
    if options.columns:
        fields["columns"] = options.columns
    addresses = {"file": options.file, **fields, **({"extends": extends} if extends else {})}
    name = options.name or (next_name(store, extends) if extends else _name_of(options.file))
    data = {"name": name, "source": "imported", "addresses": addresses}
    try:
        return CitySpec.model_validate(data)
    except ValidationError as error:
        errors = [each.text for each in field_errors(error, CitySpec, data)]
        raise InvalidFields(
            [text.replace("[addresses] ", "").replace("addresses.", "--") for text in errors]
        ) from error


def next_name(store: Store, name: str) -> str:
    """Return the first unused name after ``name``: "lyon-2", "lyon-3", ..."""
    numbered = re.fullmatch(r"(.*)-(\d+)", name)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
    return next(f"{stem}-{k}" for k in count(number + 1) if not has_city(store, f"{stem}-{k}"))


def _name_of(file: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(file.split(":")[-1]).stem).strip("-._") or "city"
