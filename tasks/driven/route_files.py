"""Content of a file of driven routes, a table or a solution of CVRPLIB with its instance, as rows of text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT, City
from mcvrp.storage.cities import Addresses, StoredCity, require_city
from mcvrp.storage.driven import checksum
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.rules import COLUMNS
from mcvrp.tasks.files.csv_cells import PLAIN, Dialect
from mcvrp.tasks.files.cvrplib import INSTANCE, SOLUTION, parse_vrp, with_best
from mcvrp.tasks.files.file_bytes import Faults, stored_bytes
from mcvrp.tasks.files.spreadsheet import ENDINGS as SPREADSHEETS
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.support.text import listed

ENDINGS = (".csv", ".parquet", *SPREADSHEETS, SOLUTION)
_WHOLE = ("stop", "demand", "capacity")  # columns of whole numbers
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")  # in the name of a solution
_MIDNIGHT = " 00:00:00"  # suffix of a date that was stored as a timestamp


@dataclass(frozen=True)
class RouteFile:
    """The bytes of a file, read once, as it may be replaced at any moment.

    Of a solution they include name and content of its ``instance``, which has the demands.
    """

    name: str
    data: bytes
    instance: tuple[str, bytes] | None = None

    @classmethod
    def read(cls, store: Store, path: str, instances: Mapping[tuple[str, str], str]) -> RouteFile:
        """Return the file at ``path``; McvrpError if it cannot be read, or its instance is not there."""
        name, data = stored_bytes(store, path)
        if not path.lower().endswith(SOLUTION):
            return cls(name, data)
        if (place := instances.get(_without_ending(path))) is None:
            missing = PurePath(path).with_suffix(INSTANCE).name
            raise McvrpError(f"it is a solution without its instance: put {missing} into the same folder")
        return cls(name, data, stored_bytes(store, place))

    @property
    def sha256(self) -> str:
        """Checksum of the content; that of a solution includes its name, which has the date."""
        parts = [self.name.encode(), self.instance[1]] if self.instance else []
        return checksum(b"\n".join([*parts, self.data]))

    def table(self, store: Store, city: StoredCity) -> tuple[pd.DataFrame, Dialect]:
        """Return its rows as text, indexed by their numbers in the file, and its dialect.

        McvrpError if it is not such a file.
        """
        if self.instance:
            return self._solution(store, city.city, self.instance), PLAIN
        return _table(self.name, self.data, city.addresses)

    def _solution(self, store: Store, city: City, instance: tuple[str, bytes]) -> pd.DataFrame:
        """Return the solution as one day, with one row per stop, from 1."""
        date = _DATE.search(self.name)
        if date is None:
            raise McvrpError(
                f"{self.name} has no date in its name, the day of its routes: rename it and its {INSTANCE}, "
                f"e.g. to {PurePath(self.name).stem}-2026-01-31"
            )
        vrp = with_best(parse_vrp(*instance), self.name, self.data)
        require_city(store, city, vrp.city.city_id, f"{vrp.name} is an instance", "name its city")
        assert vrp.best  # distances are as the solution has them
        rows = [
            (date[0], route, stop, node, vrp.demands[node - 1], vrp.capacity)
            for route, nodes in enumerate(vrp.best.solution.routes, start=1)
            for stop, node in enumerate(nodes, start=1)
        ]
        index = pd.RangeIndex(1, len(rows) + 1)
        return pd.DataFrame(rows, columns=list(COLUMNS), index=index).astype("string")


def instances_in(store: Store, folder: str) -> dict[tuple[str, str], str]:
    """Return the paths of the instances below ``folder``, by what they share with their solutions."""
    paths = (file.path for file in store.files(folder))
    return {_without_ending(path): path for path in paths if path.lower().endswith(INSTANCE)}


def _without_ending(path: str) -> tuple[str, str]:
    """Return the folder of a solution or an instance, and its name without ending, in lower case."""
    folder, _, name = path.rpartition("/")
    return folder, name[: -len(SOLUTION)].lower()


def _table(name: str, data: bytes, addresses: Addresses) -> tuple[pd.DataFrame, Dialect]:
    """Return the rows of a table of routes as in `RouteFile.table`.

    Columns may have the names that the city has for them. Rows of the depot without a demand are left out:
    `mcvrp solve` writes them at the begin and the end of each route.
    """
    table = read_tabular(name, data).calling(addresses.columns)
    own = {table.called.get(column, column): column for column in COLUMNS}
    missing = [column for column in own if column not in table.frame]
    if missing:
        raise McvrpError(
            f"{name} has no column {listed(missing)}, but {listed(table.frame.columns, most=8)}: name its "
            f"columns so, or name them in mcvrp city import, such as --columns {own[missing[0]]}=NAME"
        )
    faults = Faults(name)
    for column in own:
        if own[column] in _WHOLE:
            table.refuse_thousands(column, faults)
    faults.check()
    # a column of such a name that the city calls otherwise is another one
    used = [column for column in table.frame.columns if column in own or column not in COLUMNS]
    text = {own.get(column, column): table.text(column) for column in used}
    text |= {own[column]: table.ids(column) for column in own if own[column] in ("route", "customer")}
    frame = pd.DataFrame(text, index=pd.Index(table.rows), dtype="string")
    frame["date"] = frame["date"].str.removesuffix(_MIDNIGHT)
    depot = (frame["customer"] == addresses.ids[DEPOT]) & frame["demand"].isin(["", "0"])
    return frame[~depot], table.dialect
