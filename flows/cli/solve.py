"""`mcvrp solve`: routes for a day's orders, computed without a Prefect server or Ray."""

from __future__ import annotations

import argparse
import logging
import threading
from pathlib import Path

from mcvrp.flows.cli.output import Outcome, aligned, plain
from mcvrp.flows.config import settings
from mcvrp.flows.config.parameters import checked
from mcvrp.flows.config.preset import Preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES
from mcvrp.flows.server.interrupt import first_signal_raises
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import city_names
from mcvrp.storage.exported import folder_city
from mcvrp.storage.models.models import open_folder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE
from mcvrp.tasks.solve.day import plan_day, solve_day
from mcvrp.tasks.solve.orders import require_files_of_routes
from mcvrp.tasks.solve.outputs import Place, day_name, prepare, require_free, solve_figures, write_day
from mcvrp.tasks.solve.owner import owner
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.support.text import TIME, refusal

logger = logging.getLogger(__name__)

ROUTES = "routes"  # default parent of output folders


def solve(options: argparse.Namespace) -> Outcome:
    """Route a day's orders and write the result; no file is written if the input is invalid."""
    if options.time_window:
        raise McvrpError(refusal(f"option {options.time_window}", TIME, "omit it"))
    folder, vrp, city = _exported(options), is_vrp(options.orders), options.city
    if folder and not options.city:  # it contains its city, so that no store is needed
        store, city = folder, folder_city(folder).name
    else:
        # a .vrp contains its city, and solving it without a model needs no store
        model = options.model if options.samples is None else options.samples
        alone = vrp and not (city or model or _stored(options))
        store = Store.open("." if alone else settings.store_uri(options.store), writable=False)
        city = city or (None if vrp or options.preset else _only_city(store, options))
    preset, spec = _specs(options, city, None if folder else store)
    city = city or (None if vrp else preset.city.name)
    require_files_of_routes(options.columns or {}, options.start, options.keep)
    planned = plan_day(
        store,
        city,
        folder or options.model,
        options.orders,
        options.capacity,
        spec,
        usual_model=preset.train.model,
        unrounded=options.unrounded,
        start=options.start,
        date=options.date,
        keep=options.keep,
    )
    place = Place(Store.open(options.out or Path(ROUTES) / day_name(planned)))
    replaced = require_free(place, planned, options.overwrite)
    threading.Thread(target=prepare, daemon=True).start()
    with first_signal_raises():
        solved = solve_day(store, planned, options.began)
    files = write_day(place, solved)
    summary, lacks = solved.summary, STAGES["solve"].summary("lacks", solved.summary)
    notes = [*summary.notes, *filter(None, [replaced])]
    printed = [f"note: {note}" for note in notes if note not in summary.failures]
    text = [aligned(solve_figures(summary)), *printed, f"routes, map and README.md: {place.url}"]
    document = plain(summary) | {"notes": notes, "files": files}
    return Outcome(document, "\n".join(text), IncompleteError.exit_code if lacks else 0, lacks)


def _exported(options: argparse.Namespace) -> Store | None:
    """Return the folder of `--model`; None for the name of a model in the store."""
    model = options.model or ""
    if "/" not in model and not Path(model, layout.folder_card).is_file():
        return None
    if options.version is not None:
        raise McvrpError(f"--version: the folder {model} contains a single version: omit the option")
    if not options.city and (stored := _stored(options)):
        raise McvrpError(
            f"{stored[0]} is not read with --model {model}, which needs no store: add --city NAME, or name a "
            "local file"
        )
    return open_folder(model)


def _stored(options: argparse.Namespace) -> list[str]:
    files = [str(file) for file in (options.orders, options.start, options.keep)]
    return [file for file in files if file.startswith(IN_STORE)]


def _only_city(store: Store, options: argparse.Namespace) -> str | None:
    """Return the only city of ``store``, of several that of the orders; None without any.

    The last preset used on the store does not decide: it may be of another city with the same ids.
    """
    if len(cities := city_names(store)) < 2:
        return cities[0] if cities else None
    city = owner(store, cities, options.orders, options.columns or {})
    logger.info("city: %s, the only one that has all customers; --city selects another", city)
    return city


def _specs(
    options: argparse.Namespace, city: str | None, store: Store | None
) -> tuple[PipelineSpec, SolveSpec]:
    """Return the preset, by default the last one used on ``store`` if it is of ``city``, and the spec."""
    named = any(text.partition("=")[0].strip() == "city.name" for text in options.overrides)
    if named and not options.preset:
        raise McvrpError("--set city.name without --preset does not choose the city: name it by --city")
    chosen = Preset.chosen(options.preset, store if city else None, city)
    preset = chosen.spec(options.overrides, STAGES["solve"].sections)
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
