"""Removal of a driven day, and of what was made from it; the next ingestion reads its other files."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.driven import StoredDay, driven_days, driven_readme, receipts, write_receipt
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_records


@dataclass(frozen=True)
class RemovedDay:
    """The removed day, the files that had it, and the nights that have learned from it, by model."""

    date: str
    files: tuple[str, ...]
    nights: tuple[tuple[str, TrialRecord], ...]


def remove_day(store: Store, city: str, date: datetime.date, model: str) -> RemovedDay:
    """Remove a day of the city ``city`` and the labels of the nights that have learned from it.

    Its rows in the files that it was read from no longer count, until their content changes. Files with other
    rows of the day are read again. An interrupted call can be repeated. McvrpError without such a day, or
    while ``model`` is retrained.
    """
    _require_day(store, city, date.isoformat())  # before a lease is written
    with holding(store, layout.retraining_lease(model), f"model {model!r} is being retrained"):
        return _removed(store, city, date.isoformat())


def _require_day(store: Store, city: str, date: str) -> None:
    if store.list(layout.driven_day(city, date)):
        return
    if not any(date in (*each.days, *each.open) for each in receipts(store, city)):
        raise McvrpError(
            f"city {city!r} has no driven day {date} in {store.url()}: name one of those that "
            f"mcvrp inspect {layout.driven_dir(city)} lists"
        )


def _removed(store: Store, city: str, date: str) -> RemovedDay:
    day = next((day for day in driven_days(store, city) if day.date.isoformat() == date), None)
    sources, known = day.sources if day else [], receipts(store, city)
    touched = [each for each in known if date in each.days or date in each.open]
    kept, files = [each for each in known if each not in touched], list[str]()
    for receipt in touched:
        left = {each: routes for each, routes in receipt.open.items() if each != date}
        changed = replace(receipt, days=tuple(each for each in receipt.days if each != date), open=left)
        if receipt.open and not left:
            store.delete(layout.driven_quarantine(city, receipt.quarantine))
        if receipt.sha256 in sources or date not in receipt.open:
            files.append(receipt.name)
            changed = replace(changed, removed=tuple(sorted({*receipt.removed, date})))
        elif not left:  # a file without a receipt is read again
            store.delete(layout.driven_receipt(city, receipt.key))
            continue
        write_receipt(store, city, changed)
        kept.append(changed)
    nights = tuple(_learned(store, day)) if day else ()
    for model, record in nights:
        store.delete(layout.label_dir(record.name))
        store.delete(layout.improved_dir(model, record.name))
    store.put(layout.driven_card(city), driven_readme(city, kept).encode())
    store.delete(layout.driven_day(city, date))  # last: an interrupted call finds the day, and begins again
    return RemovedDay(date, tuple(files), nights)


def _learned(store: Store, day: StoredDay) -> list[tuple[str, TrialRecord]]:
    """Return model and record of the nights whose training data had ``day``, also with fewer routes."""
    first = f"{day.date.isoformat()} {day.sources[0]}"
    return [
        (model, record)
        for model in store.folders("nights")
        for record in trial_records(store, model, layout.NIGHT)
        if any(name.startswith(first) for name in record.days)
    ]
