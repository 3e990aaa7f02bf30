"""Ingestion of files of driven routes: valid days are stored, invalid rows quarantined with their reasons.

A file that was ingested whole is not read again, whatever its name; its receipt is named by its checksum. One
that is refused has no receipt, and one with rows in quarantine is read again by each call: what is wrong may
have been the columns of the city, or a missing address. Every row ends up in a day or in quarantine, also
after an interruption.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from functools import partial

from mcvrp.storage import layout
from mcvrp.storage.cities import DateOrder, StoredCity
from mcvrp.storage.driven import IntakeReceipt, StoredDay, driven_readme
from mcvrp.storage.packs import Pack
from mcvrp.storage.store.store import Store, StoredFile
from mcvrp.tasks.driven.intake import Intake, Quarantined, Routes
from mcvrp.tasks.driven.route_files import ENDINGS, RouteFile, instances_in
from mcvrp.tasks.driven.rules import days_of
from mcvrp.tasks.driven.stable_files import LeftOut, attempt, stable_files
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.text import listed


@dataclass(frozen=True)
class Taken:
    """Receipts of new files and number of ``known`` ones; all days in the store, and those that are new.

    A new day has new routes. ``left_out`` are the other files, ``quarantined`` those with rejected rows.
    """

    receipts: tuple[IntakeReceipt, ...]
    known: int
    stored: tuple[StoredDay, ...] = ()
    days: list[str] = field(default_factory=list)
    left_out: tuple[LeftOut, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()

    @property
    def refused(self) -> list[str]:
        """A sentence for each file that has to be corrected."""
        return [str(each) for each in self.left_out if not each.waits]

    @property
    def partial(self) -> set[str]:
        """The days of which rows are in quarantine."""
        return {day for each in self.quarantined for day in each.receipt.open}

    def lacks(self, folder: str) -> str:
        """Return what was not ingested and why, in lines; ``folder`` has the quarantines."""
        lines = self.refused
        for each in self.quarantined:
            receipt, days = each.receipt, sorted(each.receipt.open)
            rows = f"{receipt.name}: {receipt.quarantined:,} rows of {listed(days)} are in quarantine"
            file = f"{folder}/{receipt.quarantine}.csv"
            if each.faults is None:
                why = f": submit {file} corrected, or run mcvrp driven remove {days[0]}"
            else:
                why = f": {'; '.join(each.faults)}; correct or remove them in the file ({file} lists them)"
            lines.append(f"{rows}{why}")
        return "\n".join(lines)


def take_routes(
    store: Store,
    city: StoredCity,
    *,
    today: datetime.date,
    incoming: str = "incoming",
    quiet_seconds: float = 0.0,
    dates: DateOrder | None = None,
) -> Taken:
    """Ingest the new files below ``incoming`` as driven days of ``city``.

    Files of the week after ``today`` wait, those with later dates are refused; ``quiet_seconds`` are the
    ``seconds`` of `stable_files`, ``dates`` is the order of day and month (default: the city's). Raises
    McvrpError if the store has days of another city.
    """
    files, left_out = stable_files(store, incoming, ENDINGS, quiet_seconds)
    intake = Intake.of(store, city)
    known, before = set(intake.receipts), {day.name for day in intake.days.values()}
    pack = Pack(store, layout.driven_pack(city.name, "incoming"))  # checksums of the files
    packed = {file: key.decode() for file in files if (key := pack.get(file))}
    taken = {file: sha256 for file, sha256 in packed.items() if intake.is_done(sha256)}
    unknown = [file for file in files if file not in taken]
    instances = instances_in(store, incoming)

    def read(path: str) -> tuple[str, Routes | None]:
        """Return the checksum of a file, and its routes unless the same content was ingested before."""
        file = RouteFile.read(store, path, instances)
        if intake.is_done(file.sha256):
            return file.sha256, None
        table, dialect = file.table(store, city)
        days = days_of(file.name, table, today=today, order=dates or city.addresses.dates)
        return file.sha256, Routes(table, dialect, days)

    def name(file: StoredFile) -> str:
        return file.path.removeprefix(f"{incoming.rstrip('/')}/")

    with Progress("take routes", len(unknown), "files") as progress:
        for file in unknown:
            if content := attempt(file.path, left_out, partial(read, file.path)):
                taken[file], routes = content
                if routes:
                    intake.take(name(file), content[0], routes)
            progress.advance()
    quarantined = intake.settle({name(file): sha256 for file, sha256 in taken.items()})
    card = driven_readme(city.name, intake.receipts.values()).encode()
    if intake.receipts and store.find(layout.driven_card(city.name)) != card:
        store.put(layout.driven_card(city.name), card)
    if taken != packed:
        pack.save({file: sha256.encode() for file, sha256 in taken.items()})
    new = [receipt for sha256, receipt in intake.receipts.items() if sha256 not in known]
    stored = [intake.days[date] for date in sorted(intake.days)]
    return Taken(
        tuple(sorted(new, key=lambda receipt: receipt.name)),
        len(taken) - len(new),
        tuple(stored),
        [day.date.isoformat() for day in stored if day.name not in before],
        tuple(left_out),
        tuple(quarantined),
    )
