"""`mcvrp solve`: routes for a day's orders, computed without a Prefect server or Ray."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from mcvrp.flows.cli.commands import preset_of
from mcvrp.flows.cli.output import Outcome, aligned, plain
from mcvrp.flows.config import settings
from mcvrp.flows.config.parameters import checked
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.exported import folder_city
from mcvrp.storage.models.models import open_folder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE
from mcvrp.tasks.solve.day import plan_day, solve_day
from mcvrp.tasks.solve.orders import require_files_of_routes
from mcvrp.tasks.solve.outputs import Place, day_name, prepare, require_free, solve_figures, write_day
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.support.text import TIME, refusal

ROUTES = "routes"  # default parent of output folders


def solve(options: argparse.Namespace) -> Outcome:
    """Route a day's orders and write the result; no file is written if the input is invalid."""
    if options.time_window:
        raise McvrpError(refusal(f"option {options.time_window}", TIME, "omit it"))
    folder = _exported(options)
    preset, spec = _specs(options, stored=not folder)
    city = options.city or (None if is_vrp(options.orders) else preset.city.name)
    if folder and not options.city:  # it contains its city, so that no store is needed
        store, city = folder, folder_city(folder).name
    else:
        # a .vrp contains its city, and solving it without a model needs no store
        inputs = f"{options.orders} {options.start} {options.keep}"
        alone = is_vrp(options.orders) and not (options.city or spec.samples or IN_STORE in inputs)
        store = Store.open("." if alone else settings.store_uri(options.store), writable=False)
    require_files_of_routes(options.columns or {}, options.start, options.keep)
    planned = plan_day(
        store,
        city,
        folder or options.model or (preset.train.model if spec.samples else None),
        options.orders,
        options.capacity,
        spec,
        unrounded=options.unrounded,
        start=options.start,
        date=options.date,
        keep=options.keep,
    )
    place = Place(Store.open(options.out or Path(ROUTES) / day_name(planned)))
    replaced = require_free(place, planned, options.overwrite)
    threading.Thread(target=prepare, daemon=True).start()
    solved = solve_day(store, planned, options.began)
    files = write_day(place, solved)
    notes = [*solved.summary.notes, *filter(None, [replaced])]
    text = [aligned(solve_figures(solved.summary)), *(f"note: {note}" for note in notes)]
    document = plain(solved.summary) | {"notes": notes, "files": files}
    return Outcome(document, "\n".join([*text, f"routes, map and README.md: {place.url}"]))


def _exported(options: argparse.Namespace) -> Store | None:
    """Return the folder of `--model`; None for the name of a model in the store."""
    model = options.model or ""
    if "/" not in model and not Path(model, layout.folder_card).is_file():
        return None
    if options.version is not None:
        raise McvrpError(f"--version: the folder {model} contains a single version: omit the option")
    files = [str(file) for file in (options.orders, options.start, options.keep)]
    if not options.city and (stored := [file for file in files if file.startswith(IN_STORE)]):
        raise McvrpError(
            f"{stored[0]} is not read with --model {model}, which needs no store: add --city NAME, or name a "
            "local file"
        )
    return open_folder(model)


def _specs(options: argparse.Namespace, *, stored: bool) -> tuple[PipelineSpec, SolveSpec]:
    stored &= not is_vrp(options.orders) or bool(options.city or options.samples)
    _, preset = preset_of(options, STAGES["solve"].sections, stored=stored)
    names = SolveSpec.model_fields  # not all of them are options
    fields = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    if (version := layout.version_number(fields.get("version", ""))) is not None:
        fields["version"] = version
    if is_vrp(options.orders) and options.model is None:
        fields.setdefault("samples", 0)  # the preset's model was trained on another city
    fields["columns"] = preset.solve.columns | (options.columns or {})
    data = preset.solve.model_dump() | fields
    return preset, checked(
        SolveSpec, data, lambda each: f"--{str(each.path[0]).replace('_', '-')}: {each.text}"
    )
