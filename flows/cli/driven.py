"""`mcvrp driven remove`: takes a driven day that was read from a wrong file out of the store."""

from __future__ import annotations

import datetime

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.output import plain, writing
from mcvrp.flows.cli.stage import preset_of
from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage import layout
from mcvrp.tasks.driven.remove import remove_day
from mcvrp.tasks.support.text import listed


def remove_driven(common: Common, day: str, city: str | None) -> Outcome:
    """Remove a driven day, unless a night of the preset's model is running."""
    try:
        date = datetime.date.fromisoformat(day)
    except ValueError:
        raise McvrpError(f"{shown(day)} is not a date like 2026-01-31") from None
    preset, store = preset_of(common)[1], writing(common)
    name, model = layout.checked_name("city", city or preset.city.name), preset.night.model
    removed = remove_day(store, name, date, model)
    lines = [
        f"{removed.date} of city {name} is removed: the next night reads it from another file in incoming"
        + (f", or from {listed(dict.fromkeys(removed.files))} once changed" if removed.files else "")
    ]
    for trained, record in removed.nights:
        lines.append(
            f"version {record.challenger} of {trained} has learned from it ({record.name}): those labels are "
            "removed, the version is not (mcvrp rollback restores the champion before it)"
        )
    return Outcome(plain(removed), "\n".join(lines))
