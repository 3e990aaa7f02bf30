"""`mcvrp solve`: routes for a day's orders, computed without a Prefect server or Ray."""

from __future__ import annotations

from mcvrp.flows.cli.app import Common, Outcome, began
from mcvrp.flows.cli.commands import Day
from mcvrp.flows.cli.output import aligned, named_columns, plain
from mcvrp.flows.config import settings
from mcvrp.flows.config.preset import Preset
from mcvrp.flows.config.stages import STAGES
from mcvrp.flows.day import exported, solve
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.solve.outputs import solve_figures
from mcvrp.tasks.solve.spec import SolveSpec


def solve_and_write(common: Common, day: Day) -> Outcome:
    """Route a day's orders and write the result; no file is written if the input is invalid."""
    vrp, folder = is_vrp(day.orders), exported(day.model)
    # A .vrp and an exported model have their city: the last preset used on the store is not meant.
    stored = not folder and (not vrp or bool(day.city or day.samples))
    store = Store.at(settings.store_uri(common.store)) if stored else None
    preset = Preset.chosen(common.preset, store).spec(common.overrides, STAGES["solve"].sections)
    given = {name: getattr(day, name, None) for name in SolveSpec.model_fields}
    options = {name: value for name, value in given.items() if value is not None and value is not False}
    if vrp and day.model is None:
        options.setdefault("samples", 0)  # the preset's model was trained on another city
    options["columns"] = preset.solve.columns | named_columns(day.columns)
    options = preset.solve.model_dump() | options
    routed = solve(
        day.orders,
        day.city or (None if vrp or folder else preset.city.name),
        model=day.model or (preset.train.model if options["samples"] else None),
        store=common.store,
        capacity=day.capacity,
        start=day.start,
        keep=day.keep,
        unrounded=day.unrounded,
        date=day.date,
        out=day.out or True,
        overwrite=day.overwrite,
        began=began.get(),
        **options,
    )
    notes = [*routed.summary.notes, *filter(None, [routed.replaced])]
    text = [aligned(solve_figures(routed.summary)), *(f"note: {note}" for note in notes)]
    document = plain(routed.summary) | {"notes": notes, "files": routed.files}
    return Outcome(document, "\n".join([*text, f"routes, map and README.md: {routed.folder}"]))
