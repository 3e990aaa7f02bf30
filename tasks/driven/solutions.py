"""Solutions of CVRPLIB (.sol) as files of driven routes: a day each, its orders in the .vrp beside it."""

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
    """Return the solutions among ``paths`` that wait for their instance, which is not beside them yet."""
    waiting = {}
    for path in paths:
        if path.lower().endswith(SOLUTION) and not store.exists(_instance(path)):
            waiting[path] = Incomplete(path, f"waits for {PurePath(_instance(path)).name} beside it")
    return waiting


def solution_table(store: Store, path: str, city: City) -> pd.DataFrame:
    """Return the solution at ``path`` as text with the columns of driven routes, a row a stop, from 1 up.

    Raises
    ------
    McvrpError
        If its name has no date, it is no solution of its instance, or that is not of ``city``.
    """
    name = PurePath(path).name
    date = _DATE.search(name)
    if date is None:
        raise McvrpError(
            f"{name} has no date in its name, the day of its routes: call it and its {INSTANCE} like "
            f"{PurePath(name).stem}-2026-01-31"
        )
    vrp = read_vrp(store, IN_STORE + _instance(path))
    if not city.accepts(vrp.city.city_id):
        raise McvrpError(
            f"{vrp.name} is an instance of city {vrp.city.city_id}, this is {city.city_id}: name that city"
        )
    assert vrp.best  # `read_vrp` takes the solution that lies beside the instance
    rows = [
        (date[0], route, stop, node, vrp.demands[node - 1], vrp.capacity)
        for route, nodes in enumerate(vrp.best.solution.routes, start=1)
        for stop, node in enumerate(nodes, start=1)
    ]
    index = pd.RangeIndex(1, len(rows) + 1)
    return pd.DataFrame(rows, columns=list(COLUMNS), index=index).astype("string")


def _instance(path: str) -> str:
    return path[: -len(SOLUTION)] + INSTANCE
