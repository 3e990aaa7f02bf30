"""Driven days of a city: one file with one label per day, created once; and the files that they came from.

The index of a label is the number of its day, by `datetime.date.toordinal`.

The spec hash in the footer of a day is the checksum of the file of routes that it was read from.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import PurePath

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.labels.label_files import CorruptFile, hint, label_file, parse_footer, parse_table
from mcvrp.storage.labels.schema import DRIVEN, Label, label_table, table_labels
from mcvrp.storage.markdown import card, section, table
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store, StoredFile

_SHOWN = 50  # latest days in the card; others are counted
_AGAIN = "remove it, and the next night reads its day again from its file of routes"


@dataclass(frozen=True)
class StoredDay:
    """A day in the store: checksum of its file of routes (``source``), id of its city, its customers."""

    date: datetime.date
    source: str
    city_id: str
    customers: int
    address: str = field(compare=False)  # of its file, for messages
    data: bytes = field(compare=False, repr=False)  # of its file

    @property
    def name(self) -> str:
        """Date and source: unique among all days, and another one after the day was read again."""
        return f"{self.date.isoformat()} {self.source}"

    @cached_property
    def label(self) -> Label:
        """Orders and routes; McvrpError if the file is corrupt."""
        try:
            return next(table_labels(parse_table(self.data, self.address), self.city_id))
        except CorruptFile as error:
            raise _corrupt(error, self.address) from error


def checksum(data: bytes) -> str:
    """Return the SHA-256 checksum of ``data`` as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def write_day(
    store: Store, name: str, city: City, date: datetime.date, day: tuple[Instance, Solution], source: str
) -> StoredDay:
    """Write a day (orders, canonical routes) of the city ``name``; McvrpError if it is there already.

    ``source`` is the checksum of its file of routes.
    """
    instance, solution = day
    label = Label(
        date.toordinal(), instance, solution, cost(city, solution), DRIVEN, DRIVEN, "", 0, "none", 0.0, ""
    )
    data = label_file(city, source, instance.n, label_table([label]))
    path = layout.driven_day(name, date.isoformat())
    if not store.put_new(path, data):
        raise McvrpError(
            f"another process has written {store.url(path)}: wait until it has finished, and run this again"
        )
    return StoredDay(date, source, city.city_id, instance.n, store.url(path), data)


def driven_days(store: Store, name: str) -> list[StoredDay]:
    """Return the days of the city ``name`` by date.

    McvrpError if a file has a corrupt footer, or is not named by a date.
    """
    paths = [path for path in store.list(layout.driven_days_dir(name)) if path.endswith(".parquet")]
    return [
        _stored(store.url(path), data)
        for path, data in zip(paths, in_parallel(store.get, paths), strict=True)
    ]


def _stored(address: str, data: bytes) -> StoredDay:
    try:
        date = datetime.date.fromisoformat(PurePath(address).stem)
    except ValueError:
        raise McvrpError(f"{address} is not named by a date: move it away") from None
    try:
        footer = parse_footer(data, address)
    except CorruptFile as error:
        raise _corrupt(error, address) from error
    if footer.row_start != date.toordinal():
        raise McvrpError(f"{address} has another day than its name says: {_AGAIN}")
    return StoredDay(date, footer.spec_hash, footer.city_id, footer.n, address, data)


def _corrupt(error: CorruptFile, address: str) -> CorruptFile:
    """Return ``error`` with the remedy for a day: it is not solved again, but read again."""
    return CorruptFile(f"{str(error).removesuffix(hint(address))}{_AGAIN}")


@dataclass(frozen=True)
class _TakenFile(StoredFile):
    """A file of routes as it was when it was taken, and the dates of its days."""

    dates: tuple[str, ...]


@dataclass(frozen=True)
class _TakenFiles:
    files: tuple[_TakenFile, ...]


def taken_files(store: Store, city: str) -> dict[StoredFile, tuple[str, ...]]:
    """Return the dates of each file whose days were stored: unless it has changed, it is not read again."""
    path = layout.driven_taken(city)
    if (stored := store.stat(path)) is None:
        return {}
    hint = "remove it, and the files are read again"
    taken = read_document(store, path, _TakenFiles, named="list of the files that were taken", hint=hint)
    return {
        StoredFile(file.path, file.size, file.modified): file.dates
        for file in taken.files
        # A file as young as the list may have been replaced since, see `Dataset`.
        if file.modified < stored.modified
    }


def write_taken_files(store: Store, city: str, dates_of: Mapping[StoredFile, tuple[str, ...]]) -> None:
    """Write the list that `taken_files` returns."""
    files = [{**asdict(file), "dates": dates} for file, dates in dates_of.items()]
    store.put_json(layout.driven_taken(city), {"files": files})


def driven_readme(city: str, days: Sequence[StoredDay]) -> str:
    """Return the README of the driven ``days`` of ``city`` as Markdown."""
    span = f", {days[0].date} to {days[-1].date}" if days else ""
    rows = [
        [day.date.isoformat(), f"{day.customers:,}", f"{len(day.label.solution.routes):,}"]
        for day in days[-_SHOWN:]
    ]
    more = f"The last {_SHOWN} of {len(days):,}." if len(days) > _SHOWN else ""
    return card(
        f"Driven routes of city `{city}`",
        {
            "days": f"{len(days):,}{span}",
            "customers, of all days together": f"{sum(day.customers for day in days):,}",
        },
        section("Days", more, table(["Day", "Customers", "Routes"], rows, right=True)),
        lead="Read from files of routes. Each day is a label for fine-tuning (`mcvrp nightly`).",
        files={"days/DATE.parquet": "orders and routes of a day, as one label"},
    )
