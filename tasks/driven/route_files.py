"""Content of a file of driven routes, a table or a solution of CVRPLIB, as one row per stop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT
from mcvrp.storage.cities import StoredCity, require_city
from mcvrp.storage.driven import checksum
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.rules import COLUMNS
from mcvrp.tasks.files.cvrplib import INSTANCE, SOLUTION, parse_vrp, with_best
from mcvrp.tasks.files.file_bytes import stored_bytes
from mcvrp.tasks.files.spreadsheet import ENDINGS as SPREADSHEETS
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.support.text import listed

ENDINGS = (".csv", ".parquet", *SPREADSHEETS, SOLUTION)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")  # in the name of a solution


@dataclass(frozen=True)
class RouteFile:
    """Rows of a file, and the checksum of its content."""

    sha256: str
    table: Tabular


def read_routes(store: Store, path: str, city: StoredCity) -> RouteFile:
    """Return the file at ``path``, read once; McvrpError if it has no rows of the columns `COLUMNS`."""
    name, data = stored_bytes(store, path)
    if path.lower().endswith(SOLUTION):
        return _solution(store, path, name, data, city)
    return RouteFile(checksum(data), _table(name, data, city))


def _table(name: str, data: bytes, city: StoredCity) -> Tabular:
    """Return the rows of a table, whose columns may have the names that the city has for them.

    Rows of the depot without a demand are left out: `mcvrp solve` writes them at both ends of each route.
    """
    table = read_tabular(name, data).calling(city.addresses.columns)
    column = {field: table.column(field) for field in COLUMNS}
    if missing := [field for field in COLUMNS if column[field] is None]:
        raise McvrpError(
            f"{name} has no column {listed(missing)}, but {listed(table.frame.columns, most=8)}: name its "
            f"columns so, or name them in mcvrp city import, such as --columns {missing[0]}=NAME"
        )
    frame = table.frame
    depot = (table.ids(str(column["customer"])) == city.addresses.ids[DEPOT]) & frame[column["demand"]].isin(
        ["", "0"]
    ).to_numpy()
    if depot.all():
        raise McvrpError(f"{name} has no customers, only rows of the depot: add the stops")
    return table.where(~depot)


def _solution(store: Store, path: str, name: str, data: bytes, city: StoredCity) -> RouteFile:
    """Return a solution as one day, with one row per stop, from 1; its instance, beside it, has the demands.

    The date in the name and the instance are part of the checksum.
    """
    instance = path[: -len(SOLUTION)] + INSTANCE
    if not store.exists(instance):
        missing = PurePath(instance).name
        raise McvrpError(f"it is a solution without its instance: put {missing} into the same folder")
    date = _DATE.search(name)
    if date is None:
        raise McvrpError(
            f"{name} has no date in its name, the day of its routes: rename it and its {INSTANCE}, "
            f"e.g. to {PurePath(name).stem}-2026-01-31"
        )
    text = stored_bytes(store, instance)
    vrp = with_best(parse_vrp(*text), name, data)
    require_city(store, city.city, vrp.city.city_id, f"{vrp.name} is an instance", "name its city")
    assert vrp.best  # distances are as the solution has them
    rows = [
        (date[0], route, city.addresses.ids[node], stop, vrp.demands[node - 1], vrp.capacity)
        for route, nodes in enumerate(vrp.best.solution.routes, start=1)
        for stop, node in enumerate(nodes, start=1)
    ]
    sha256 = checksum(b"\n".join([name.encode(), text[1], data]))
    return RouteFile(sha256, Tabular.of(name, pd.DataFrame(rows, columns=list(COLUMNS))))
