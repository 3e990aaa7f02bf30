"""Content of a file of driven routes, as one row per stop."""

from __future__ import annotations

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.driven import checksum
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.rules import COLUMNS
from mcvrp.tasks.files.file_bytes import stored_bytes
from mcvrp.tasks.files.spreadsheet import ENDINGS as SPREADSHEETS
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.support.text import listed

ENDINGS = (".csv", ".parquet", *SPREADSHEETS)


def read_routes(store: Store, path: str, city: StoredCity) -> tuple[str, Tabular]:
    """Return the checksum of the file at ``path``, read once, and its rows.

    Columns may have the names that the city has for them. Rows of the depot without a demand are left out:
    `mcvrp solve` writes them at both ends of each route. McvrpError if it has no rows of the columns
    `COLUMNS`.
    """
    _, data = stored_bytes(store, path)
    table = read_tabular(path, data).calling(city.addresses.columns)
    column = {field: table.column(field) for field in COLUMNS}
    if missing := [field for field in COLUMNS if column[field] is None]:
        raise McvrpError(
            f"{path} has no column {', '.join(missing)}, but {listed(table.titles.values(), most=8)}: name "
            f"them so, or by mcvrp city set {city.name} --columns {missing[0]}=NAME"
        )
    frame = table.frame
    depot = (table.ids(str(column["customer"])) == city.addresses.ids[DEPOT]) & frame[column["demand"]].isin(
        ["", "0"]
    ).to_numpy()
    if depot.all():
        raise McvrpError(f"{path} has no customers, only rows of the depot: add the stops")
    return checksum(data), table.where(~depot)
