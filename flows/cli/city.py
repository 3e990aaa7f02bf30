"""`mcvrp city`: the spec of an imported city, and creating one without Prefect."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import PurePath

from pydantic import ValidationError

from mcvrp.flows.cli.output import Outcome, aligned, plain
from mcvrp.flows.config.errors import field_errors
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import has_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city
from mcvrp.tasks.city.spec import CitySpec

_FIELDS = ("matrix", "depot", "unit", "demand", "capacity", "history", "spare", "unrounded")
_NUMBER = re.compile(r"(.*)-(\d+)")


def create_city(spec: CitySpec, store: Store) -> Outcome:
    """Create the city of ``spec`` without Prefect, if that is not installed."""
    from mcvrp.flows.figures import CitySummary, city_figures

    began = time.monotonic()
    made = make_city(store, spec)
    summary = CitySummary.of(spec.name, made, time.monotonic() - began)
    return Outcome(plain(summary), aligned(city_figures(summary)))


def imported_city(options: argparse.Namespace, store: Store) -> CitySpec:
    """Return the spec of `mcvrp city import` or `extend`.

    Raises
    ------
    McvrpError
        If an option is invalid.
    """
    extends = options.city if options.action == "extend" else None
    fields = {name: value for name in _FIELDS if (value := getattr(options, name, None)) is not None}
    addresses = {"file": options.file, **fields, **({"extends": extends} if extends else {})}
    name = options.name or (next_name(store, extends) if extends else _name_of(options.file))
    data = {"name": name, "source": "imported", "addresses": addresses}
    try:
        return CitySpec.model_validate(data)
    except ValidationError as error:
        first = field_errors(error, CitySpec, data)[0].text
        raise McvrpError(first.replace("[addresses] ", "").replace("addresses.", "--")) from error


def next_name(store: Store, name: str) -> str:
    """Return the first unused name after ``name``: "lyon-2", "lyon-3", ..."""
    numbered = _NUMBER.fullmatch(name)
    stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
    while True:
        number += 1
        if not has_city(store, f"{stem}-{number}"):
            return f"{stem}-{number}"


def _name_of(file: str) -> str:
    """Return the name of ``file`` without the characters that are invalid in a city's name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(file.split(":")[-1]).stem).strip("-._")
    return stem or "city"
