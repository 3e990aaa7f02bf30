"""Files of driven routes become days to learn from; what cannot is set aside with its reason.

Each file is taken once, whatever it is called: its checksum names its receipt. Nothing is
dropped: every row is in a day or in quarantine, and the file itself stays where it is. Killed at any
moment and run again, the same days come out.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.driven import (
    IntakeReceipt,
    StoredDay,
    checksum,
    driven_days,
    receipts,
    write_day,
    write_driven_card,
    write_receipt,
)
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.rules import COLUMNS, check_routes
from mcvrp.tasks.driven.solutions import solution_table, without_instance
from mcvrp.tasks.driven.stable_files import Incomplete, stable_files
from mcvrp.tasks.files.csv_cells import csv_bytes
from mcvrp.tasks.files.cvrplib import SOLUTION
from mcvrp.tasks.files.file_bytes import TooLarge, stored_bytes
from mcvrp.tasks.files.spreadsheet import ENDINGS, ReaderStopped
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.text import listed

INCOMING = "incoming"
_ENDINGS = (".csv", ".parquet", *ENDINGS, SOLUTION)
_MIDNIGHT = " 00:00:00"  # what stands behind a date that was stored as a moment


@dataclass(frozen=True)
class Taken:
    """Intake of one look into the incoming folder: a receipt for each new file; ``known`` were before.

    ``stored`` are all days that there are now, by date; ``waiting`` are files that may not be whole yet.
    """

    receipts: tuple[IntakeReceipt, ...]
    known: int
    stored: tuple[StoredDay, ...] = ()
    waiting: tuple[Incomplete, ...] = ()

    @property
    def days(self) -> list[str]:
        """The new days."""
        return sorted(day for receipt in self.receipts for day in receipt.days)


def take_routes(
    store: Store,
    name: str,
    city: City,
    nodes: Mapping[str, int],
    *,
    today: datetime.date,
    incoming: str = INCOMING,
    quiet_seconds: float = 0.0,
) -> Taken:
    """Take the files below ``incoming`` that were not taken before into the days of the city ``name``.

    Parameters
    ----------
    nodes
        The city's node of each customer's name.
    today
        Later dates are not believed.
    quiet_seconds
        Seconds for which a file has to have been left alone (`tasks.driven.stable_files`).

    Raises
    ------
    McvrpError
        If days are there that were driven in another city.
    """
    paths, waiting = stable_files(store, incoming, _ENDINGS, quiet_seconds)
    lonely = without_instance(store, paths)
    paths, waiting = [path for path in paths if path not in lonely], [*waiting, *lonely.values()]
    names = {receipt.sha256: receipt.name for receipt in receipts(store, name)}  # of files taken before
    made, known = list[IntakeReceipt](), 0
    days = {day.date: day for day in driven_days(store, name)}
    _require_city(store, name, city, days.values())  # before anything is written
    with Progress("take routes", len(paths), "files") as progress:
        for path in paths:
            try:
                file, data = stored_bytes(store, path)
                sha256 = checksum(data)
                if sha256 in names:
                    known += 1
                    continue
                taken = {
                    date: names.get(day.source, "another file")
                    for date, day in days.items()
                    if day.source != sha256
                }
                rows = partial(_rows, store, city, path, data)
                receipt = _take(store, name, city, nodes, IntakeReceipt(file, sha256), rows, taken, today)
                write_receipt(store, name, receipt)  # last: until then the file is not taken
                made.append(receipt)
                names[sha256] = file
                for text in receipt.days:
                    date = datetime.date.fromisoformat(text)
                    days.setdefault(date, StoredDay(date, sha256, city.city_id))
            except (TooLarge, ReaderStopped) as error:
                waiting.append(Incomplete(path, f"is not taken: {error}"))
            finally:
                progress.advance()
    if made or known:
        write_driven_card(store, name)
    return Taken(tuple(made), known, tuple(days[date] for date in sorted(days)), tuple(waiting))


def _require_city(store: Store, name: str, city: City, days: Iterable[StoredDay]) -> None:
    others = [day for day in days if not city.accepts(day.city_id)]
    if others:
        first = layout.driven_day(name, others[0].date.isoformat())
        raise McvrpError(
            f"{store.url(first)} was driven in city {others[0].city_id} (and {len(others) - 1} days more in "
            f"others than {name!r}, which is {city.city_id} now and does not extend them): move them away, "
            "or give this city another name"
        )


def _take(
    store: Store,
    name: str,
    city: City,
    nodes: Mapping[str, int],
    receipt: IntakeReceipt,
    rows: Callable[[], pd.DataFrame],
    taken: Mapping[datetime.date, str],
    today: datetime.date,
) -> IntakeReceipt:
    """Write days and quarantine of one file, and return its receipt filled in."""
    try:
        table = rows()
    except ReaderStopped:  # for nothing that is in the file
        raise
    except McvrpError as error:
        return replace(receipt, refused=str(error))
    checked = check_routes(table, city, nodes, today=today, taken=taken)
    for day in checked.days:
        if not write_day(store, name, city, day.date, (day.instance, day.solution), receipt.sha256):
            raise McvrpError(f"another process takes routes of city {name!r} just now: wait for it to end")
    if len(checked.rejected):
        store.put(layout.driven_quarantine(name, receipt.key), csv_bytes(checked.rejected))
    dates = tuple(day.date.isoformat() for day in checked.days)
    return replace(receipt, rows=len(table), rejected=len(checked.rejected), days=dates)


def _rows(store: Store, city: City, path: str, data: bytes) -> pd.DataFrame:
    """Return the rows of the file at ``path``, from its bytes ``data``, which the receipt stands for."""
    if path.lower().endswith(SOLUTION):
        return solution_table(store, path, city)
    return _read(path.rsplit("/", 1)[-1], data)


def _read(name: str, data: bytes) -> pd.DataFrame:
    """Return the rows of a file of routes as text, by their numbers in the file."""
    found = read_tabular(name, data)
    missing = [column for column in COLUMNS if column not in found.frame]
    if missing:
        raise McvrpError(
            f"{name} has no column {listed(missing)}: write files of routes with "
            f"{listed(COLUMNS, len(COLUMNS))}"
        )
    text = {column: found.text(column) for column in found.frame.columns}
    frame = pd.DataFrame(text, index=pd.Index(found.rows), dtype="string")
    frame["date"] = frame["date"].str.removesuffix(_MIDNIGHT)
    return frame
