"""Driven days of a city, one file with one label per day, and receipts of the ingested files of routes.

The spec hash in the footer of a day is the checksum of its file of routes, or of several, joined by "+", if
routes were added later. A receipt is written last: a file without one is ingested again.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import PurePath

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.labels.label_files import (
    HINT,
    CorruptFile,
    label_file,
    parse_footer,
    parse_table,
)
from mcvrp.storage.labels.schema import DRIVEN, Label, label_table, table_labels
from mcvrp.storage.markdown import card, escaped, section, table
from mcvrp.storage.packs import Pack
from mcvrp.storage.store.store import Store

_DIGITS = 16  # of a checksum, in names of files
_MOST_STEM = 60  # characters
_SHOWN = 50  # latest files in the card; others are counted


@dataclass(frozen=True)
class IntakeReceipt:
    """Receipt of one content of a file of routes, at ``name`` below the folder for such files.

    ``open`` has the customers of each route whose rows are in quarantine, by day.
    """

    name: str
    sha256: str
    rows: int = 0
    days: tuple[str, ...] = ()  # of its valid rows, as "2026-01-31"
    open: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    corrected: int = 0  # rows that were in quarantine
    removed: tuple[str, ...] = ()  # days on which its rows do not count
    number: int = 0  # among the ingested contents of the city, from 1

    @property
    def quarantined(self) -> int:
        """Number of its rows in quarantine."""
        return sum(len(customers) for routes in self.open.values() for customers in routes)

    @property
    def key(self) -> str:
        """File name of its receipt, without suffix."""
        return self.sha256[:_DIGITS]

    @property
    def quarantine(self) -> str:
        """File name of its quarantine, without suffix: its own name, made safe, and its key."""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", PurePath(self.name).stem).lstrip("_-")[:_MOST_STEM]
        return f"{stem or 'routes'}-{self.key}"


@dataclass(frozen=True)
class StoredDay:
    """A day in the store: checksums of its files of routes (``source``), and id of its city."""

    date: datetime.date
    source: str
    city_id: str

    @property
    def name(self) -> str:
        """Date and source: unique among all days, and another one after routes were added."""
        return f"{self.date.isoformat()} {self.source}"

    @property
    def sources(self) -> list[str]:
        """Checksums of the files that its routes come from, in the order of their ingestion."""
        return self.source.split("+")


def checksum(data: bytes) -> str:
    """Return the SHA-256 checksum of ``data`` as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def receipts(store: Store, city: str, *, save: bool = False) -> list[IntakeReceipt]:
    """Return the receipts of all ingested files, by file name; ``save`` adds new ones to a pack."""
    folder, kind = layout.driven_receipts_dir(city), "receipt of a file of routes"
    documents = [
        as_document(content, IntakeReceipt, store.url(path), named=kind, hint="remove it")
        for path, content in _packed(store, city, "receipts", folder, ".json", save=save)
    ]
    return sorted(documents, key=lambda receipt: receipt.name)


def _packed(
    store: Store, city: str, kind: str, folder: str, ending: str, *, save: bool
) -> list[tuple[str, bytes]]:
    """Return path and content of the files in ``folder``, from a pack if it has them."""
    files = [file for file in store.files(folder) if file.path.endswith(ending)]
    return sorted(Pack(store, layout.driven_pack(city, kind)).contents(files, store.get, save=save).items())


def write_receipt(store: Store, city: str, receipt: IntakeReceipt) -> None:
    """Write the receipt of a file, which completes its ingestion."""
    store.put_json(layout.driven_receipt(city, receipt.key), asdict(receipt))


def write_day(
    store: Store, name: str, city: City, date: datetime.date, day: tuple[Instance, Solution], sha256: str
) -> bool:
    """Write a day (orders, canonical routes) of the city ``name``, and return whether it was not there.

    ``sha256`` is the checksum of its file of routes.
    """
    return store.put_new(layout.driven_day_file(name, date.isoformat(), 1), _day_file(city, day, sha256))


def extend_day(
    store: Store, name: str, city: City, day: StoredDay, more: tuple[Instance, Solution], sha256: str
) -> StoredDay | None:
    """Add ``more`` orders and routes, of other customers, to the stored ``day``, and return it.

    ``sha256`` is the checksum of their file of routes. None if another process has changed the day.
    """
    number, path = _latest_file(store, name, day.date)
    data = store.get(path)
    footer = parse_footer(data, store.url(path))
    if footer.spec_hash != day.source:
        return None
    before, (orders, routes) = _label(data, store.url(path)), more
    ids = np.concatenate([before.instance.ids, orders.ids])
    demands, order = np.concatenate([before.instance.demands, orders.demands]), np.argsort(ids)
    merged = Instance(city.city_id, ids[order], demands[order], orders.capacity)
    solution = canonical(city, Solution.of([*before.solution.routes, *routes.routes]))
    source = f"{day.source}+{sha256}"
    following = layout.driven_day_file(name, day.date.isoformat(), number + 1)
    if not store.put_new(following, _day_file(city, (merged, solution), source)):
        return None
    return StoredDay(day.date, source, city.city_id)


def _day_file(city: City, day: tuple[Instance, Solution], source: str) -> bytes:
    instance, solution = day
    label = Label(0, instance, solution, cost(city, solution), DRIVEN, DRIVEN, "", 0, "none", 0.0, "")
    return label_file(city, source, instance.n, label_table([label]))


def _latest_file(store: Store, name: str, date: datetime.date) -> tuple[int, str]:
    """Return number and path of the file of a day; McvrpError if there is none."""
    number = max(store.numbered(layout.driven_day(name, date.isoformat())), default=1)
    return number, layout.driven_day_file(name, date.isoformat(), number)


def _day_files(store: Store, name: str, *, save: bool = False) -> list[tuple[str, bytes]]:
    """Return path and content of the file of each day, by date: the one with the highest number."""
    files = _packed(store, name, "days", layout.driven_days_dir(name), ".parquet", save=save)
    latest = {PurePath(path).parent.name: (path, data) for path, data in files}
    return [latest[date] for date in sorted(latest)]


def driven_days(store: Store, name: str, *, save: bool = False) -> Iterator[StoredDay]:
    """Yield the days of the city ``name`` by date; ``save`` adds new ones to a pack."""
    with _with_hint(store, name):
        for path, data in _day_files(store, name, save=save):
            footer = parse_footer(data, store.url(path))
            try:
                day = datetime.date.fromisoformat(PurePath(path).parent.name)
            except ValueError:
                raise McvrpError(
                    f"{store.url(path)} is not in a folder that is named by a date: move it away"
                ) from None
            yield StoredDay(day, footer.spec_hash, footer.city_id)


def customers_per_day(store: Store, name: str) -> list[int]:
    """Return the number of customers of each day of the city ``name``; corrupt files are left out."""
    counts = []
    for path, data in _day_files(store, name):
        with suppress(CorruptFile):
            counts.append(parse_footer(data, store.url(path)).n)
    return counts


def read_day(store: Store, name: str, date: datetime.date) -> Label:
    """Return the label of one day; McvrpError if its file is corrupt or missing."""
    with _with_hint(store, name):
        _, path = _latest_file(store, name, date)
        return _label(store.get(path), store.url(path))


def read_days(store: Store, name: str) -> dict[str, Label]:
    """Return the labels of all days of the city ``name`` by date; McvrpError if a file is corrupt."""
    with _with_hint(store, name):
        files = _day_files(store, name)
        return {PurePath(path).parent.name: _label(data, store.url(path)) for path, data in files}


def _label(data: bytes, where: str) -> Label:
    return next(table_labels(parse_table(data, where), parse_footer(data, where).city_id))


@contextmanager
def _with_hint(store: Store, name: str) -> Iterator[None]:
    """Replace the remedy for a corrupt day: not solving, but ingesting its files of routes again."""
    try:
        yield
    except CorruptFile as error:
        receipts_of = store.url(layout.driven_receipts_dir(name))
        raise CorruptFile(
            f"{str(error).removesuffix(f': {HINT}')}: remove it and all receipts in {receipts_of} that "
            "name its day, then its files of routes are ingested again"
        ) from error


def driven_readme(city: str, files: Iterable[IntakeReceipt]) -> str:
    """Return the README as Markdown, from the receipts of all ingested ``files``."""
    files = sorted(files, key=lambda receipt: (receipt.days[:1], receipt.name, receipt.number))
    days = sorted({day for receipt in files for day in receipt.days})
    span = f", {days[0]} to {days[-1]}" if days else ""
    rows = [
        [
            escaped(file.name),
            *(f"{count:,}" for count in (file.rows, file.quarantined, file.corrected, len(file.days))),
            " to ".join(dict.fromkeys(sorted(file.days)[k] for k in (0, -1))) if file.days else "",
            file.key,
        ]
        for file in files[-_SHOWN:]
    ]
    header = ["File", "Rows", "Quarantined", "Corrected", "Days", "Dates", "Key"]
    more = f"Latest {_SHOWN} of {len(files):,}." if len(files) > _SHOWN else ""
    return card(
        f"Driven routes of city `{city}`",
        {
            "files of routes": f"{len(files):,}",
            "days": f"{len(days):,}{span}",
            "rows": f"{sum(file.rows for file in files):,}",
            "rows in quarantine": f"{sum(file.quarantined for file in files):,}",
            "rows that were in quarantine, corrected": f"{sum(file.corrected for file in files):,}",
        },
        section("Files of routes", table(header, rows, "lrrrrll"), more),
        lead="Ingested from files of routes. Each valid day is a label for fine-tuning (`mcvrp nightly`).",
        files={
            "days/DATE/NUMBER.parquet": "orders and routes of a day, as one label; the highest number counts",
            "files/KEY.json": "receipt of a file of routes: rows, days, customers of its rejected routes",
            "quarantine/NAME-KEY.csv": "its rejected rows that are not corrected yet, each with its `reason`",
        },
    )
