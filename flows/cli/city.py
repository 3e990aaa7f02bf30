"""`mcvrp city import` and `mcvrp city extend`: from their options to the spec of a city."""

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


def made_here(spec: CitySpec, store: Store) -> Outcome:
    """Make the city of ``spec`` without Prefect, which is not installed: there is no record of it."""
    from mcvrp.flows.figures import CitySummary, city_figures

    began = time.monotonic()
    made = make_city(store, spec)
    summary = CitySummary.of(spec.name, made, time.monotonic() - began)
    return Outcome(plain(summary), aligned(city_figures(summary)))


def imported(options: argparse.Namespace, store: Store) -> CitySpec:
    """Return the city that the command line asks for.

    Raises
    ------
    McvrpError
        If an option is wrong, in one sentence.
    """
    extends = options.city if options.action == "extend" else None
    given = {name: value for name in _FIELDS if (value := getattr(options, name, None)) is not None}
    addresses = {"file": options.file, **given, **({"extends": extends} if extends else {})}
    name = options.name or (next_name(store, extends) if extends else _name_of(options.file))
    data = {"name": name, "source": "imported", "addresses": addresses}
    try:
        return CitySpec.model_validate(data)
    except ValidationError as error:
        first = field_errors(error, CitySpec, data)[0].text
        raise McvrpError(first.replace("[addresses] ", "").replace("addresses.", "--")) from error


def next_name(store: Store, name: str) -> str:
    """Return the first free name behind ``name``: "lyon-2", "lyon-3", ..."""
    counted = _NUMBER.fullmatch(name)
    stem, number = (counted[1], int(counted[2])) if counted else (name, 1)
    while True:
        number += 1
        if not has_city(store, f"{stem}-{number}"):
            return f"{stem}-{number}"


def _name_of(file: str) -> str:
    """Return a name for the city of ``file``: that of the file, as far as it can be a folder's."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(file.split(":")[-1]).stem).strip("-._")
    return stem or "city"
