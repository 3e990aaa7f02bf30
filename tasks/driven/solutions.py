"""Solutions of CVRPLIB (.sol) as files of driven routes: one day each, with the .vrp of the same name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.rules import COLUMNS
from mcvrp.tasks.driven.stable_files import Incomplete
from mcvrp.tasks.files.cvrplib import INSTANCE, SOLUTION, read_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def without_instance(store: Store, paths: Sequence[str]) -> dict[str, Incomplete]:
    """Return the solutions among ``paths`` whose instance is missing."""
    waiting = {}
    for path in paths:
        if path.lower().endswith(SOLUTION) and not store.exists(_instance(path)):
            waiting[path] = Incomplete(path, f"waits for {PurePath(_instance(path)).name} in the same folder")
    return waiting


def solution_table(store: Store, path: str, city: City) -> pd.DataFrame:
    """Return the solution at ``path`` as text with the columns of driven routes, one row per stop, from 1.

    McvrpError if its name has no date, it does not solve its instance, or that is not an instance of
    ``city``.
    """
    name = PurePath(path).name
    date = _DATE.search(name)
    if date is None:
        raise McvrpError(
            f"{name} has no date in its name, the day of its routes: rename it and its {INSTANCE}, e.g. to "
            f"{PurePath(name).stem}-2026-01-31"
        )
    vrp = read_vrp(store, IN_STORE + _instance(path))
    if not city.accepts(vrp.city.city_id):
        raise McvrpError(
            f"{vrp.name} is an instance of city {vrp.city.city_id}, not of {city.city_id}: name its city"
        )
    assert vrp.best  # `read_vrp` reads the solution of the same name, too
    rows = [
        (date[0], route, stop, node, vrp.demands[node - 1], vrp.capacity)
        for route, nodes in enumerate(vrp.best.solution.routes, start=1)
        for stop, node in enumerate(nodes, start=1)
    ]
    index = pd.RangeIndex(1, len(rows) + 1)
    return pd.DataFrame(rows, columns=list(COLUMNS), index=index).astype("string")


def _instance(path: str) -> str:
    return path[: -len(SOLUTION)] + INSTANCE
