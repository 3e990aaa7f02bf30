"""Ingestion of driven routes: each file of a folder is taken whole, or refused with its reason.

Files stay where they are. One that is refused is read again by each call: what is wrong may have been the
columns of the city, or a missing address. Days are created once, so that an interrupted call is completed by
the next one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, city_text
from mcvrp.storage.driven import (
    StoredDay,
    checksum,
    driven_days,
    driven_readme,
    taken_files,
    write_day,
    write_taken_files,
)
from mcvrp.storage.store.errors import StoreUnavailable
from mcvrp.storage.store.store import Store, StoredFile
from mcvrp.tasks.driven.check_rows import COLUMNS, CheckedDay, checked_days
from mcvrp.tasks.files.file_bytes import stored_bytes
from mcvrp.tasks.files.spreadsheet import ENDINGS as SPREADSHEETS
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from mcvrp.tasks.support.progress import Progress

ENDINGS = (".csv", ".parquet", *SPREADSHEETS)


@dataclass(frozen=True)
class Taken:
    """Address of the ``folder``, paths of ``files`` with new days, and number of ``known`` ones.

    All days of known files were stored before. ``days`` are the dates of the new ones; ``refused`` has a
    sentence for each file that has to be corrected.
    """

    folder: str
    files: tuple[str, ...] = ()
    known: int = 0
    days: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def take_routes(
    store: Store,
    city: StoredCity,
    *,
    today: datetime.date,
    incoming: str = layout.INCOMING,
) -> tuple[Taken, tuple[StoredDay, ...]]:
    """Take the new files below ``incoming`` as driven days of ``city``; return also all days in the store.

    Days after ``today`` are refused. Raises McvrpError if the store has days of another city, or has no
    folder ``incoming`` that is not the default.
    """
    above, _, name = incoming.rstrip("/").rpartition("/")
    if incoming != layout.INCOMING and name not in store.folders(above):
        raise McvrpError(f"nightly.incoming: no folder {incoming!r} in {store.url()}")
    files, refused = list[StoredFile](), list[str]()
    for file in store.files(incoming):
        if file.path.lower().endswith(ENDINGS):
            files.append(file)
        else:
            refused.append(f"{file.path}: its name ends with none of {', '.join(ENDINGS)}")
    days = {day.date.isoformat(): day for day in driven_days(store, city.name)}
    _require_city(store, city, days.values())
    before, taken = set(days), taken_files(store, city.name)
    dates_of = {file: taken[file] for file in files if file in taken and days.keys() >= set(taken[file])}
    unknown, new = [file for file in files if file not in dates_of], list[str]()
    with Progress("take routes", len(unknown), "files") as progress:
        for file in unknown:
            try:
                sha256, table = _read_routes(store, file.path, city)
                checked = checked_days(table, city, today=today)
                _require_known(checked, days, dates_of)
            except StoreUnavailable:  # says nothing about the file
                raise
            except McvrpError as error:
                refused.append(text if file.path in (text := str(error)) else f"{file.path}: {text}")
            else:
                dates_of[file] = tuple(day.date.isoformat() for day in checked)
                missing = [day for day in checked if day.date.isoformat() not in days]
                new += [file.path] if missing else []
                for day in missing:
                    driven = day.instance, day.solution
                    written = write_day(store, city.name, city.city, day.date, driven, sha256)
                    days[day.date.isoformat()] = written
            progress.advance()
    stored = tuple(days[date] for date in sorted(days))
    card = driven_readme(city.name, stored).encode()
    if stored and store.find(layout.driven_card(city.name)) != card:
        store.put(layout.driven_card(city.name), card)
    if any(taken.get(file) != dated for file, dated in dates_of.items()):
        write_taken_files(store, city.name, dates_of)
    dates, known = tuple(sorted(days.keys() - before)), len(dates_of) - len(new)
    return Taken(store.url(incoming), tuple(new), known, dates, tuple(refused)), stored


def _read_routes(store: Store, path: str, city: StoredCity) -> tuple[str, Tabular]:
    """Return the checksum of the file at ``path``, read once, and its rows.

    Columns may have the names that the city has for them. Rows of the depot without a demand are left out:
    `mcvrp solve` writes them at both ends of each route. McvrpError if it has no rows of the columns
    `COLUMNS`.
    """
    _, data = stored_bytes(store, path)
    table = read_tabular(path, data).calling(city.addresses.columns)
    column = {field: table.column(field) for field in COLUMNS}
    if missing := [field for field in COLUMNS if column[field] is None]:
        hint = f"name them so, or by mcvrp city set {city.name} --columns {missing[0]}=NAME"
        raise table.lacks(", ".join(missing), hint)
    frame = table.frame
    depot = (table.ids(str(column["customer"])) == city.addresses.ids[DEPOT]) & frame[column["demand"]].isin(
        ["", "0"]
    ).to_numpy()
    if depot.all():
        raise McvrpError(f"{path} has no customers, only rows of the depot: add the stops")
    return checksum(data), table.where(~depot)


def _require_known(
    checked: Iterable[CheckedDay],
    days: Mapping[str, StoredDay],
    dates_of: Mapping[StoredFile, Sequence[str]],
) -> None:
    """Raise McvrpError if a stored day has other orders or routes than a file has for its date."""
    for day in checked:
        date = day.date.isoformat()
        if (stored := days.get(date)) is None:
            continue
        label = stored.label
        if (label.solution, label.instance.orders_hash) != (day.solution, day.instance.orders_hash):
            other = next(
                (file.path for file, dated in dates_of.items() if date in dated),
                "an earlier version of it, or another file",
            )
            raise McvrpError(
                f"its routes of {date} are not those of {other}, which were ingested: one file has all "
                "routes of a day; if this one is right, move others of that day away and remove "
                f"{stored.address}"
            )


def _require_city(store: Store, city: StoredCity, days: Iterable[StoredDay]) -> None:
    others = [day for day in days if not city.city.accepts(day.city_id)]
    if others:
        more = f" (and {len(others) - 1} other days)" if others[1:] else ""
        raise McvrpError(
            f"{others[0].address} was driven in city {city_text(store, others[0].city_id)}{more}, but city "
            f"{city.name!r} is {city.city.city_id}, which does not extend it: move "
            f"{store.url(layout.driven_dir(city.name))} away, then its files are read again, or rename "
            "this city"
        )
