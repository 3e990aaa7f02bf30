"""Driven days of a city: a file of one label a day, a receipt for each file of routes that was taken in.

A day is written once and stays; its footer's spec hash is the checksum of the file that it came
from. A receipt is written last: a file without one is taken (again) by the next who looks.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.labels.label_files import (
    HINT,
    CorruptFile,
    label_file,
    parse_footer,
    parse_table,
    read_footer,
    read_footers,
)
from mcvrp.storage.labels.schema import DRIVEN, Label, label_table, table_labels
from mcvrp.storage.markdown import render
from mcvrp.storage.store.store import Store

_NAMES = 16  # digits of a checksum that name a file
_SHOWN = 50  # files in the card, the last ones; more are counted


@dataclass(frozen=True)
class IntakeReceipt:
    """Receipt of one file of routes: the days that it gave, or why it was refused.

    Parameters
    ----------
    name, sha256
        Of the file.
    rows, rejected
        How many rows it has, and how many of them are in quarantine.
    days
        The days that it gave, "2026-01-31".
    refused
        Why it could not be read at all, None where it could.
    """

    name: str
    sha256: str
    rows: int = 0
    rejected: int = 0
    days: tuple[str, ...] = ()
    refused: str | None = None

    @property
    def key(self) -> str:
        """Name of its receipt and its quarantine."""
        return self.sha256[:_NAMES]


@dataclass(frozen=True)
class StoredDay:
    """A day that is in the store: ``source`` is the checksum of the file that it came from.

    ``city_id`` is the city's of whose addresses its orders and routes are.
    """

    date: datetime.date
    source: str
    city_id: str

    @property
    def name(self) -> str:
        """The day, and the file that it came from: no other day has the same."""
        return f"{self.date.isoformat()} {self.source}"


def checksum(data: bytes) -> str:
    """Return what names a file of routes whatever it is called."""
    return hashlib.sha256(data).hexdigest()


def receipts(store: Store, city: str) -> list[IntakeReceipt]:
    """Return the receipts of all files taken so far, in order of their names."""
    found = [
        read_document(store, path, IntakeReceipt, named="receipt of a file of routes", hint="remove it")
        for path in store.list(layout.driven_receipts_dir(city))
        if path.endswith(".json")
    ]
    return sorted(found, key=lambda receipt: receipt.name)


def write_receipt(store: Store, city: str, receipt: IntakeReceipt) -> None:
    """Write down that a file was taken, which ends its taking."""
    store.put_json(layout.driven_receipt(city, receipt.key), asdict(receipt))


def write_day(
    store: Store, name: str, city: City, date: datetime.date, day: tuple[Instance, Solution], sha256: str
) -> bool:
    """Write a day of the city ``name`` unless it is there; return whether it is this file's now.

    Parameters
    ----------
    day
        Orders and canonical routes.
    sha256
        Checksum of the file of routes that they come from.
    """
    instance, solution = day
    label = Label(0, instance, solution, cost(city, solution), DRIVEN, DRIVEN, "", 0, "none", 0.0, "")
    data, _ = label_file(city, sha256, instance.n, label_table([label]))
    path = layout.driven_day(name, date.isoformat())
    # a day is written once; that it is there may be our own work of before we were stopped
    return store.put_new(path, data) or read_footer(store, path).spec_hash == sha256


def driven_days(store: Store, name: str) -> Iterator[StoredDay]:
    """Yield the days of the city ``name``, by date; of each file only the footer is read."""
    with _with_hint(store, name):
        paths = store.list(layout.driven_days_dir(name))
        for path, footer in zip(paths, read_footers(store, paths), strict=True):
            if isinstance(footer, CorruptFile):
                raise footer
            date = path.rsplit("/", 1)[-1].removesuffix(".parquet")
            try:
                day = datetime.date.fromisoformat(date)
            except ValueError:
                raise McvrpError(f"{store.url(path)} has no day for a name: move it away") from None
            yield StoredDay(day, footer.spec_hash, footer.city_id)


def read_day(store: Store, name: str, date: datetime.date) -> Label:
    """Return what was driven on one day; McvrpError if its file is corrupt or not there."""
    path = layout.driven_day(name, date.isoformat())
    data, where = store.get(path), store.url(path)
    with _with_hint(store, name):
        return next(table_labels(parse_table(data, where), parse_footer(data, where).city_id))


@contextmanager
def _with_hint(store: Store, name: str) -> Iterator[None]:
    """Replace the hint on a corrupt day: no solver makes it, its file of routes does, taken once more."""
    try:
        yield
    except CorruptFile as error:
        receipts_of = store.url(layout.driven_receipts_dir(name))
        raise CorruptFile(
            f"{str(error).removesuffix(f': {HINT}')}: remove it and the receipt in {receipts_of} that names "
            "its day, and its file of routes is taken again"
        ) from error


def write_driven_card(store: Store, city: str) -> None:
    """Write README.md of what was driven in the city ``city``."""
    store.put(layout.driven_card(city), driven_readme(store, city).encode())


def driven_readme(store: Store, city: str) -> str:
    """Return the card as Markdown, from the receipts of all files taken so far."""
    files = sorted(receipts(store, city), key=lambda receipt: (receipt.days[:1], receipt.name))
    days = sorted(day for receipt in files for day in receipt.days)
    return render("mcvrp.storage", "driven.md.j2", city=city, files=files, days=days, shown=_SHOWN)
