"""`mcvrp driven remove`: takes a driven day that was read from a wrong file out of the store."""

from __future__ import annotations

import argparse

from mcvrp.flows.cli.commands import preset_of
from mcvrp.flows.cli.output import Outcome, plain, writing
from mcvrp.storage import layout
from mcvrp.tasks.driven.remove import remove_day
from mcvrp.tasks.support.text import listed


def remove(options: argparse.Namespace) -> Outcome:
    """Remove a driven day, unless a night of the preset's model is running."""
    preset, store = preset_of(options, ["city", "train", "nightly"])[1], writing(options)
    city, model = layout.checked_name("city", options.city or preset.city.name), preset.night.model
    removed = remove_day(store, city, options.day, model)
    lines = [
        f"{removed.date} of city {city} is removed: the next night reads it from another file in incoming"
        + (f", or from {listed(dict.fromkeys(removed.files))} once changed" if removed.files else "")
    ]
    for name, record in removed.nights:
        lines.append(
            f"version {record.challenger} of {name} has learned from it ({record.name}): those labels are "
            "removed, the version is not (mcvrp rollback restores the champion before it)"
        )
    return Outcome(plain(removed), "\n".join(lines))
