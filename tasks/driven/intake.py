"""Days, receipts and quarantines of a city, and what one ingestion makes of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity, city_text
from mcvrp.storage.driven import (
    IntakeReceipt,
    StoredDay,
    driven_days,
    extend_day,
    read_day,
    receipts,
    write_day,
    write_receipt,
)
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.rules import CheckedDay, CheckedRoutes, KnownDay, RejectedRoute, check_routes
from mcvrp.tasks.files.csv_cells import Dialect, csv_bytes
from mcvrp.tasks.support.text import listed

_MOST_FAULTS = 5  # per file in a message; its quarantine lists all


@dataclass(frozen=True)
class Quarantined:
    """Receipt of a file with rows in quarantine, and their ``faults``; None if it was not read."""

    receipt: IntakeReceipt
    faults: tuple[str, ...] | None


@dataclass(frozen=True)
class Routes:
    """Rows of a file, the form of its cells, and the day of each row."""

    table: pd.DataFrame
    dialect: Dialect
    days: pd.Series[pd.Timestamp]


@dataclass
class Intake:
    """Receipts and days of a city; ``faulty`` files of this ingestion have rejected rows, by checksum."""

    store: Store
    city: StoredCity
    receipts: dict[str, IntakeReceipt]
    days: dict[datetime.date, StoredDay]
    faulty: dict[str, tuple[IntakeReceipt, CheckedRoutes, Dialect]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, city: StoredCity) -> Intake:
        """Return the state of the store; McvrpError if it has days of another city."""
        known = {receipt.sha256: receipt for receipt in receipts(store, city.name, save=True)}
        days = {day.date: day for day in driven_days(store, city.name, save=True)}
        _require_city(store, city, days.values())
        return cls(store, city, known, days)

    def is_done(self, sha256: str) -> bool:
        """Return whether a content is in the store as a whole, or was read before by this ingestion."""
        return sha256 in self.faulty or (sha256 in self.receipts and not self.receipts[sha256].open)

    def take(self, name: str, sha256: str, routes: Routes) -> None:
        """Write the days of a file, and its receipt; what is rejected is left to `settle`."""
        number = 1 + max((receipt.number for receipt in self.receipts.values()), default=0)
        before = self.receipts.get(sha256, IntakeReceipt(name, sha256, number=number))
        before = replace(before, name=name)
        kept = ~routes.days.dt.strftime("%Y-%m-%d").isin(before.removed)
        nodes = self.city.addresses.node_of
        checked = check_routes(
            routes.table[kept], routes.days[kept], self.city.city, nodes, stored=partial(self._stored, before)
        )
        for day in checked.days:
            self._add(day, sha256)
        found = max(len(checked.rejected), before.quarantined + before.corrected)
        receipt = replace(before, rows=len(routes.table), days=checked.dates, open={}, corrected=found)
        if len(checked.rejected):
            self.faulty[sha256] = receipt, checked, routes.dialect
        if sha256 not in self.receipts or not len(checked.rejected):
            self._write(_with_open(receipt, ((each.day, each.customers) for each in checked.routes)))

    def settle(self, taken: Mapping[str, str]) -> list[Quarantined]:
        """Write quarantines and receipts of files with rejected rows by the days of now, and return them.

        A rejected route counts as corrected once a later file has given its customers to the day. If its
        file is not among ``taken`` (checksums by name), because its content has changed or it was moved, the
        route counts as corrected if the day serves its customers, or if the file of its name has the day.
        """
        faults = dict[str, tuple[str, ...]]()
        for sha256, (receipt, checked, dialect) in self.faulty.items():
            routes = [
                each
                for each in checked.routes
                if each.contradicts or not self._serves(each.day, each.customers, receipt.number)
            ]
            receipt = _with_open(receipt, ((each.day, each.customers) for each in routes))
            if routes:
                rows = {row for each in routes for row in each.rows}
                left = checked.rejected[checked.rejected["row"].isin(rows)]
                path = layout.driven_quarantine(self.city.name, receipt.quarantine)
                self.store.put(path, csv_bytes(left, dialect))
            faults[sha256] = _faults(routes)
            self._write(receipt)
        present = set(taken.values())
        gone = [each for sha256, each in self.receipts.items() if each.open and sha256 not in present]
        for receipt in gone:
            heir = self.receipts.get(taken.get(receipt.name, ""))
            again = (*heir.days, *heir.open) if heir else ()
            still = [
                (day, customers)
                for day, rejected in receipt.open.items()
                for customers in rejected
                if day not in again and not self._serves(day, customers)
            ]
            corrected = replace(receipt, open={}, corrected=receipt.quarantined + receipt.corrected)
            self._write(_with_open(corrected, still))
        found = sorted(self.receipts.values(), key=lambda receipt: receipt.number)
        return [Quarantined(each, faults.get(each.sha256)) for each in found if each.open]

    def _stored(self, file: IntakeReceipt, date: datetime.date) -> KnownDay | None:
        """Return the day of ``date`` as the content ``file`` is compared with it."""
        if (day := self.days.get(date)) is None:
            return None
        names = [
            self.receipts[each].name if each in self.receipts else "another file" for each in day.sources
        ]
        label = read_day(self.store, self.city.name, date)
        return KnownDay(
            listed(dict.fromkeys(names)),
            label.instance,
            label.solution,
            f": if this file is right, run mcvrp driven remove {date} --city {self.city.name}",
            file.sha256 not in day.sources and set(names) == {file.name},
        )

    def _add(self, day: CheckedDay, sha256: str) -> None:
        routes, before, city = (day.instance, day.solution), self.days.get(day.date), self.city
        written: StoredDay | None
        if before:
            written = extend_day(self.store, city.name, city.city, before, routes, sha256)
        else:
            new = write_day(self.store, city.name, city.city, day.date, routes, sha256)
            written = StoredDay(day.date, sha256, city.city.city_id) if new else None
        if written is None:
            raise McvrpError(
                f"another process ingests routes of city {city.name!r}: wait until it has finished"
            )
        self.days[day.date] = written

    def _serves(self, date: str, customers: Iterable[str], after: int = 0) -> bool:
        """Return whether a day serves all of ``customers`` that the city has, at least one.

        A file with a number larger than ``after`` has to be among those that the day was read from.
        """
        found, nodes = self.days.get(datetime.date.fromisoformat(date)), self.city.addresses.nodes(customers)
        nodes = nodes[nodes > DEPOT]
        if found is None or not len(nodes):
            return False
        numbers = (self.receipts[each].number for each in found.sources if each in self.receipts)
        if max(numbers, default=0) <= after:
            return False
        served = read_day(self.store, self.city.name, found.date).instance.ids
        return bool(np.isin(nodes, served).all())

    def _write(self, receipt: IntakeReceipt) -> None:
        """Write a receipt if it is a new one, without its quarantine if nothing is left there."""
        before = self.receipts.get(receipt.sha256)
        if before and before.open and (not receipt.open or before.quarantine != receipt.quarantine):
            self.store.delete(layout.driven_quarantine(self.city.name, before.quarantine))
        if receipt != before:
            write_receipt(self.store, self.city.name, receipt)
        self.receipts[receipt.sha256] = receipt


def _with_open(receipt: IntakeReceipt, routes: Iterable[tuple[str, tuple[str, ...]]]) -> IntakeReceipt:
    """Return a receipt, whose rows count as corrected, with ``routes`` (days and customers) open again."""
    by_day: dict[str, tuple[tuple[str, ...], ...]] = {}
    for day, customers in routes:
        by_day[day] = (*by_day.get(day, ()), customers)
    opened = replace(receipt, open=by_day)
    return replace(opened, corrected=receipt.corrected - opened.quarantined)


def _faults(routes: Iterable[RejectedRoute]) -> tuple[str, ...]:
    """Return the first faults, and the number of the others."""
    faults = [fault for route in routes for fault in route.faults]
    more = len(faults) - _MOST_FAULTS
    return (*faults[:_MOST_FAULTS], *([f"and {more:,} more"] if more > 0 else []))


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
