"""Removal of a driven day, and of what was made from it; the next night reads it from the files there are."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.driven import StoredDay, driven_days, driven_readme, taken_files
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, trial_records


@dataclass(frozen=True)
class RemovedDay:
    """The removed day, and the nights that have learned from it, by model."""

    date: str
    nights: tuple[tuple[str, TrialRecord], ...]


def remove_day(store: Store, city: str, date: datetime.date, model: str, incoming: str) -> RemovedDay:
    """Remove a day of the city ``city`` and the labels of the nights that have learned from it.

    An interrupted call can be repeated. McvrpError without such a day, if the next night would read it again
    from an unchanged file below ``incoming``, or while ``model`` is retrained.
    """
    days = driven_days(store, city)
    day = next((day for day in days if day.date == date), None)
    if day is None:
        raise McvrpError(
            f"city {city!r} has no driven day {date} in {store.url()}: name one of those that "
            f"mcvrp inspect {layout.driven_dir(city)} lists"
        )
    taken = taken_files(store, city)
    for file in store.files(incoming):
        if date.isoformat() in taken.get(file, ()):
            raise McvrpError(
                f"{store.url(file.path)} has routes of {date}, and the next night would read them again: "
                "correct it, or move it away, before the day is removed"
            )
    with holding(store, layout.retraining_lease(model), f"model {model!r} is being retrained"):
        nights = tuple(_learned(store, day))
        for trained, record in nights:
            store.delete(layout.label_dir(record.name))
            store.delete(layout.improved_dir(trained, record.name))
        left = [each for each in days if each is not day]
        store.put(layout.driven_card(city), driven_readme(city, left).encode())
        path = layout.driven_day(city, date.isoformat())
        store.delete(path)  # last: an interrupted call finds the day, and begins again
    return RemovedDay(date.isoformat(), nights)


def _learned(store: Store, day: StoredDay) -> list[tuple[str, TrialRecord]]:
    """Return model and record of the nights whose training data had ``day``."""
    return [
        (model, record)
        for model in store.folders("nights")
        for record in trial_records(store, model, layout.NIGHT)
        if day.name in record.days
    ]
