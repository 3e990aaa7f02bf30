"""`mcvrp solve`: routes for a day's orders, computed without a Prefect server or Ray."""

from __future__ import annotations

import re

from mcvrp.flows.cli.app import Outcome, WithPreset, began
from mcvrp.flows.cli.commands import Day
from mcvrp.flows.cli.output import aligned, named_columns, plain
from mcvrp.flows.cli.stage import spec_of
from mcvrp.flows.day import solve
from mcvrp.model.errors import IncompleteError, InvalidFields, McvrpError
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.solve.outputs import solve_figures
from mcvrp.tasks.solve.spec import AUTO, MODEL, DecodingSpec, SolveSpec

_OF_MODEL = {*DecodingSpec.model_fields, "version"}  # fields that only a model's search reads


def solve_and_write(common: WithPreset, day: Day) -> Outcome:
    """Route a day's orders and write the result; no file is written if the input is invalid."""
    vrp, columns = is_vrp(day.orders), named_columns(day.columns)
    changed = [text.partition("=")[0].strip() for text in common.overrides]
    preset, city = spec_of(common), day.city
    if city is None and not vrp and (common.preset or "city.name" in changed):  # a .vrp has its city
        city = preset.city.name
    given = {name: getattr(day, name, None) for name in SolveSpec.model_fields}
    options = {name: value for name, value in given.items() if value is not None and value is not False}
    if vrp and day.model is None:
        options.setdefault("samples", 0)  # the preset's model was trained on another city
    options["columns"] = preset.solve.columns | columns
    options = preset.solve.model_dump() | options
    without_model = options["by"] not in (AUTO, MODEL)
    unused = [f"--samples {day.samples}"] if day.samples else []
    unused += [f"--set {key}" for key in changed if key.removeprefix("solve.") in _OF_MODEL]
    if without_model and unused:
        raise McvrpError(f"{unused[0]}: --by {options['by']} searches without a model: omit one")
    if without_model or not options["samples"]:
        options["version"] = day.version  # the preset's is of its model
    try:
        routed = solve(
            day.orders,
            city,
            model=day.model,
            store=common.store,
            capacity=day.capacity,
            keep=day.keep,
            unrounded=day.unrounded,
            date=day.date,
            out=day.out or True,
            overwrite=day.overwrite,
            began=began.get(),
            roads=day.roads,
            usual_model=preset.train.model if options["samples"] else None,
            **options,
        )
    except InvalidFields as error:  # those of the options: a preset's have been checked
        sentences = [
            re.sub(r"^\w+", lambda name: f"--{name[0].replace('_', '-')}", text) for text in error.sentences
        ]
        raise InvalidFields(sentences) from None
    printed = [f"note: {note}" for note in routed.notes if note not in routed.failures]
    text = [
        aligned(solve_figures(routed)),
        *printed,
        f"routes.xlsx, map.html and others: {routed.folder}",
    ]
    document = plain(routed.summary) | {"files": routed.files}
    return Outcome(document, "\n".join(text), IncompleteError.exit_code if routed.failures else 0)
