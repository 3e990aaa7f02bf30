"""`mcvrp solve`: a day's orders to routes in this process, without a Prefect server or Ray."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import ValidationError

from mcvrp.flows.cli.output import Outcome, aligned, output_folder, plain
from mcvrp.flows.config import settings
from mcvrp.flows.config.errors import field_errors
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.exported import folder_city
from mcvrp.storage.models.models import open_folder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE
from mcvrp.tasks.solve.day import plan_day, solve_day
from mcvrp.tasks.solve.outputs import Place, day_name, require_free, write_day
from mcvrp.tasks.solve.readme import solve_figures
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.support.text import TIME, refusal

ROUTES = "routes"  # the folder for folders of routes
_OPTIONS = ("version", "samples", "time_limit", "polish", "hgs", "seed", "fleet", "longest_route")


def solve(options: argparse.Namespace) -> Outcome:
    """Route a day's orders; return what came of it.

    Raises
    ------
    McvrpError
        If the orders, an option or the store are wrong; no file has been written then.
    """
    if options.time_window:
        raise McvrpError(refusal(f"option {options.time_window}", TIME, "leave it out"))
    preset, spec = _specs(options)
    folder = _exported(options)
    city = options.city or (None if is_vrp(options.orders) else preset.city.name)
    if folder and not options.city:  # it has all that it takes: no store need be there
        store, city = folder, folder_city(folder).name
    else:
        # a file that is its own city, searched without a model, needs nothing of a store
        places = f"{options.orders} {options.start}"
        alone = is_vrp(options.orders) and not (options.city or spec.samples or IN_STORE in places)
        store = Store.open("." if alone else settings.store_uri(options.store), writable=False)
    planned = plan_day(
        store,
        city,
        folder or options.model or preset.train.model,
        options.orders,
        options.capacity,
        spec,
        unrounded=options.unrounded,
        start=options.start,
    )
    place = Place(output_folder(options.out or Path(ROUTES) / day_name(planned)))
    replaced = require_free(place, planned, options.overwrite)
    solved = solve_day(store, planned, options.began)
    files = write_day(place, solved)
    notes = [*solved.summary.notes, *([replaced] if replaced else [])]
    text = [aligned(solve_figures(solved.summary)), *(f"note: {note}" for note in notes)]
    document = plain(solved.summary) | {"notes": notes, "files": files}
    return Outcome(document, "\n".join([*text, f"routes, map and README.md: {place.url}"]))


def _exported(options: argparse.Namespace) -> Store | None:
    """Return the folder that `--model` names, None where it is a model's name in the store."""
    model = options.model or ""
    if "/" not in model and not Path(model, layout.folder_card).is_file():
        return None
    if options.version is not None:
        raise McvrpError(f"--version: the folder {model} holds one version of one model, leave it out")
    return open_folder(model)


def _specs(options: argparse.Namespace) -> tuple[PipelineSpec, SolveSpec]:
    """Return the preset, and how the day is solved: what the preset says of it, then the options."""
    preset = load_preset(options.preset, options.overrides)
    given = {name: value for name in _OPTIONS if (value := getattr(options, name)) is not None}
    if (version := layout.version_number(given.get("version", ""))) is not None:
        given["version"] = version
    if is_vrp(options.orders) and options.model is None:
        given.setdefault("samples", 0)  # a city of its own, which the preset's model does not know
    data = preset.solve.model_dump() | given
    try:
        return preset, SolveSpec.model_validate(data)
    except ValidationError as error:
        first = field_errors(error, SolveSpec, data)[0]
        raise McvrpError(f"--{str(first.path[0]).replace('_', '-')}: {first.text}") from None
