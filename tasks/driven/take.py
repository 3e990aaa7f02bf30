"""Ingestion of files of driven routes: valid days are stored, invalid rows quarantined with a reason.

Each file is ingested once, whatever its name, and stays in place: its receipt is named by its checksum. For a
solution it includes the name, which has the date, and the instance, which has the demands. Every row ends up
in a day or in quarantine, also after an interruption.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT, City
from mcvrp.storage import layout
from mcvrp.storage.cities import Addresses, StoredCity, city_text, require_city
from mcvrp.storage.driven import (
    IntakeReceipt,
    StoredDay,
    checksum,
    driven_days,
    driven_readme,
    extend_day,
    read_day,
    receipts,
    write_day,
    write_receipt,
)
from mcvrp.storage.packs import Pack
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.driven.rules import COLUMNS, KnownDay, check_routes, dates
from mcvrp.tasks.driven.stable_files import Incomplete, set_aside, stable_files
from mcvrp.tasks.files.csv_cells import PLAIN, Dialect, csv_bytes
from mcvrp.tasks.files.cvrplib import INSTANCE, SOLUTION, parse_vrp, with_best
from mcvrp.tasks.files.file_bytes import Faults, stored_bytes
from mcvrp.tasks.files.spreadsheet import ENDINGS, ReaderStopped
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.text import listed

logger = logging.getLogger(__name__)

_ENDINGS = (".csv", ".parquet", *ENDINGS, SOLUTION)
_WHOLE = ("stop", "demand", "capacity")  # columns of whole numbers
_AHEAD = datetime.timedelta(days=7)  # a plan of these days waits for them; dates beyond are errors
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")  # in the name of a solution
_MIDNIGHT = " 00:00:00"  # suffix of a date that was stored as a timestamp


class _TooEarly(McvrpError):
    """The routes are of a day that has not begun here."""


@dataclass(frozen=True)
class Taken:
    """Receipts of new files, number of ``known`` and list of ``waiting`` ones, and all days in the store."""

    receipts: tuple[IntakeReceipt, ...]
    known: int
    stored: tuple[StoredDay, ...] = ()
    waiting: tuple[Incomplete, ...] = ()

    @property
    def days(self) -> list[str]:
        """The days that are new or have new routes."""
        return sorted({day for receipt in self.receipts for day in receipt.days})

    def lacks(self, where: str) -> str:
        """Return what was not ingested and why, in lines; quarantines are in the folder ``where``."""
        parts = [f"{each.name} was refused: {each.refused}" for each in self.receipts if each.refused]
        kinds = [
            f"{count:,} × {reason} ({each.name})"
            for each in self.receipts
            for reason, count in each.reasons.items()
        ]
        if rows := sum(each.rejected for each in self.receipts):
            parts.append(
                f"{rows:,} rows in quarantine, {listed(kinds)}: correct them in {where} and submit them again"
            )
        return "\n".join(parts)


def take_routes(
    store: Store,
    city: StoredCity,
    *,
    today: datetime.date,
    incoming: str = "incoming",
    quiet_seconds: float = 0.0,
) -> Taken:
    """Ingest the new files below ``incoming`` as driven days of ``city``.

    Files of the week after ``today`` wait, otherwise later dates are rejected; ``quiet_seconds`` are the
    ``seconds`` of `stable_files`. Raises McvrpError if the store has days of another city.
    """
    files, waiting = stable_files(store, incoming, _ENDINGS, quiet_seconds)
    known = receipts(store, city.name, save=True)
    names = {receipt.sha256: receipt.name for receipt in known}
    refused = {receipt.sha256 for receipt in known if receipt.refused}
    days = {day.date: day for day in driven_days(store, city.name, save=True)}
    _require_city(store, city, days.values())  # before anything is written
    pack = Pack(store, layout.driven_pack(city.name, "incoming"))  # checksums of the files
    packed = {file: key for file in files if (key := pack.get(file)) and key.decode() in names}
    checksums = {  # a refused solution is read again: its instance may be another one by now
        file: key for file, key in packed.items() if not (_is_solution(file.path) and key.decode() in refused)
    }
    unknown, new = [file for file in files if file not in checksums], list[IntakeReceipt]()
    solutions = [file for file in unknown if _is_solution(file.path)]
    instances = _instances(store, incoming) if solutions else {}
    for file in solutions:
        if _without_ending(file.path) not in instances:
            unknown.remove(file)
            name = PurePath(file.path).with_suffix(INSTANCE).name
            waiting.append(Incomplete(file.path, f"waits for {name} in the same folder"))
    with Progress("take routes", len(unknown), "files") as progress:
        for file in unknown:
            content: list[tuple[str, bytes]] = []  # of the file, and of the instance of a solution
            with set_aside(file.path, waiting):
                paths = [file.path]
                if _is_solution(file.path):
                    paths.append(instances[_without_ending(file.path)])
                content = [stored_bytes(store, path) for path in paths]
            if content:
                try:
                    sha256, receipt = _take(store, city, content, names, days, today)
                    checksums[file] = sha256.encode()
                    new += [receipt] if receipt else []
                except (ReaderStopped, _TooEarly) as error:
                    waiting.append(Incomplete(file.path, f"is not ingested: {error}"))
            progress.advance()
    if any(file in checksums for file in unknown):
        store.put(layout.driven_card(city.name), driven_readme(city.name, [*known, *new]).encode())
        pack.save(checksums)  # last: a card that an interruption has left behind is written by the next call
    stored = tuple(days[date] for date in sorted(days))
    return Taken(tuple(new), len(checksums) - len(new), stored, tuple(waiting))


def _require_city(store: Store, city: StoredCity, days: Iterable[StoredDay]) -> None:
    others = [day for day in days if not city.city.accepts(day.city_id)]
    if others:
        first = store.url(layout.driven_day(city.name, others[0].date.isoformat()))
        more = f" (and {len(others) - 1} other days)" if others[1:] else ""
        raise McvrpError(
            f"{first} was driven in city {city_text(store, others[0].city_id)}{more}, but city "
            f"{city.name!r} is {city.city.city_id}, which does not extend it: move "
            f"{store.url(layout.driven_dir(city.name))} away, then its files are ingested again, or rename "
            "this city"
        )


def _take(
    store: Store,
    city: StoredCity,
    content: Sequence[tuple[str, bytes]],
    names: dict[str, str],
    days: dict[datetime.date, StoredDay],
    today: datetime.date,
) -> tuple[str, IntakeReceipt | None]:
    """Return the checksum of a file, and its receipt if it is new, not in ``names``.

    ``content`` is its name and bytes, and those of the instance of a solution.
    """
    (name, data), *instances = content
    vrp = instances[0] if instances else None
    parts = [name.encode(), vrp[1], data] if vrp else [data]
    receipt = IntakeReceipt(name, checksum(b"\n".join(parts)))
    if receipt.sha256 in names:
        return receipt.sha256, None
    dialect = PLAIN
    try:
        # from the bytes of the checksum: the file may be replaced at any moment
        if vrp:
            table = _solution_table(store, name, data, vrp, city.city)
        else:
            table, dialect = _route_table(name, data, city.addresses)
        _require_driven(table, today)
    except (ReaderStopped, StoreError, _TooEarly):  # says nothing about the file
        raise
    except McvrpError as error:
        receipt = replace(receipt, refused=str(error))
    else:
        receipt = _write(store, city, receipt, table, dialect, names, days, today)
    write_receipt(store, city.name, receipt)  # last: a file without a receipt is ingested again
    # reasons are for the summary, which a night that is interrupted does not reach
    if receipt.refused:
        logger.warning("%s was refused", name)
    elif receipt.rejected:
        logger.warning("%s: %d of %d rows are in quarantine", name, receipt.rejected, receipt.rows)
    names[receipt.sha256] = name
    return receipt.sha256, receipt


def _require_driven(table: pd.DataFrame, today: datetime.date) -> None:
    """Raise _TooEarly if all routes are of the next days: a plan, or those of a zone further east."""
    days = dates(table["date"])
    if days.min() > pd.Timestamp(today) and days.max() <= pd.Timestamp(today + _AHEAD):
        raise _TooEarly(f"its routes are of {days.max():%Y-%m-%d}: run again from that day")


def _write(
    store: Store,
    city: StoredCity,
    receipt: IntakeReceipt,
    table: pd.DataFrame,
    dialect: Dialect,
    names: Mapping[str, str],
    days: dict[datetime.date, StoredDay],
    today: datetime.date,
) -> IntakeReceipt:
    """Write days and quarantine of one file, add its days to ``days``, and return its receipt."""
    others = {day.date: day for day in days.values() if day.source != receipt.sha256}

    def stored(date: datetime.date) -> KnownDay | None:
        if (day := others.get(date)) is None:
            return None
        files = dict.fromkeys(names.get(source, "another file") for source in day.sources)
        label = read_day(store, city.name, date)
        return KnownDay(listed(files), label.instance, label.solution)

    checked = check_routes(table, city.city, city.addresses.node_of, today=today, stored=stored)
    for day in checked.days:
        routes, before = (day.instance, day.solution), others.get(day.date)
        written: StoredDay | None
        if before:
            written = extend_day(store, city.name, city.city, before, routes, receipt.sha256)
        else:
            new = write_day(store, city.name, city.city, day.date, routes, receipt.sha256)
            written = StoredDay(day.date, receipt.sha256, city.city.city_id) if new else None
        if written is None:
            raise McvrpError(
                f"another process ingests routes of city {city.name!r}: wait until it has finished"
            )
        days[day.date] = written
    if len(checked.rejected):
        store.put(
            layout.driven_quarantine(city.name, receipt.quarantine), csv_bytes(checked.rejected, dialect)
        )
    # also those of an ingestion that was interrupted
    own = sorted(date.isoformat() for date, day in days.items() if receipt.sha256 in day.sources)
    return replace(
        receipt,
        rows=len(table),
        rejected=len(checked.rejected),
        reasons=checked.reasons,
        days=tuple(own),
    )


def _is_solution(path: str) -> bool:
    return path.lower().endswith(SOLUTION)


def _without_ending(path: str) -> tuple[str, str]:
    """Return the folder of a solution or an instance, and its name without ending, in lower case."""
    folder, _, name = path.rpartition("/")
    return folder, name[: -len(SOLUTION)].lower()


def _instances(store: Store, folder: str) -> dict[tuple[str, str], str]:
    paths = (file.path for file in store.files(folder))
    return {_without_ending(path): path for path in paths if path.lower().endswith(INSTANCE)}


def _solution_table(
    store: Store, name: str, data: bytes, instance: tuple[str, bytes], city: City
) -> pd.DataFrame:
    """Return the solution of CVRPLIB in ``data``, one day, as text with one row per stop, from 1.

    ``instance`` is name and content of its instance.
    """
    date = _DATE.search(name)
    if date is None:
        raise McvrpError(
            f"{name} has no date in its name, the day of its routes: rename it and its {INSTANCE}, e.g. to "
            f"{PurePath(name).stem}-2026-01-31"
        )
    vrp = with_best(parse_vrp(*instance), name, data)
    require_city(store, city, vrp.city.city_id, f"{vrp.name} is an instance", "name its city")
    assert vrp.best  # distances are as the solution has them
    rows = [
        (date[0], route, stop, node, vrp.demands[node - 1], vrp.capacity)
        for route, nodes in enumerate(vrp.best.solution.routes, start=1)
        for stop, node in enumerate(nodes, start=1)
    ]
    index = pd.RangeIndex(1, len(rows) + 1)
    return pd.DataFrame(rows, columns=list(COLUMNS), index=index).astype("string")


def _route_table(name: str, data: bytes, addresses: Addresses) -> tuple[pd.DataFrame, Dialect]:
    """Return the rows of a file of routes as text, indexed by their numbers in the file, and its dialect.

    Columns may have the names that the city has for them. Rows of the depot without a demand are left out:
    `mcvrp solve` writes them at the begin and the end of each route.
    """
    table = read_tabular(name, data).calling(addresses.columns)
    own = {table.called.get(column, column): column for column in COLUMNS}
    missing = [column for column in own if column not in table.frame]
    if missing:
        raise McvrpError(
            f"{name} has no column {listed(missing)}: add it, files of routes have the columns "
            f"{listed(COLUMNS, len(COLUMNS))}"
        )
    faults = Faults(name)
    for column in own:
        if own[column] in _WHOLE:
            table.refuse_thousands(column, faults)
        elif own[column] == "customer":
            table.refuse_unpadded(column, addresses.ids, faults)
    faults.check()
    # a column of such a name that the city calls otherwise is another one
    used = [column for column in table.frame.columns if column in own or column not in COLUMNS]
    text = {own.get(column, column): table.text(column) for column in used}
    text |= {own[column]: table.ids(column) for column in own if own[column] in ("route", "customer")}
    frame = pd.DataFrame(text, index=pd.Index(table.rows), dtype="string")
    frame["date"] = frame["date"].str.removesuffix(_MIDNIGHT)
    depot = (frame["customer"] == addresses.ids[DEPOT]) & frame["demand"].isin(["", "0"])
    return frame[~depot], table.dialect
