"""Commands of `mcvrp`: they run flows in this process and return their results as text and JSON."""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Collection
from itertools import count
from pathlib import PurePath
from pkgutil import resolve_name
from typing import Any

from mcvrp.flows.cli.output import Outcome, aligned, markdown_text, plain, writing
from mcvrp.flows.config import settings
from mcvrp.flows.config.parameters import checked
from mcvrp.flows.config.preflight import check_cores, missing_packages, require_pipeline
from mcvrp.flows.config.preset import Preset
from mcvrp.flows.config.spec import PipelineSpec, require_sizes
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import city_names, has_city, stored_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import make_city, plan_city
from mcvrp.tasks.city.spec import CitySpec
from mcvrp.tasks.support.text import listed

logger = logging.getLogger(__name__)

# Commands that need only the base of the installation.
_BASE = {
    *("plan", "preset", "city", "solve", "inspect", "lineage", "gc"),
    *("models", "driven", "store", "promote", "rollback"),
}
_CITY_FIELDS = (
    "matrix", "depot", "unit", "demand", "capacity", "history", "spare", "unrounded", "far", "dates",
)  # fmt: skip


def execute(options: argparse.Namespace) -> Outcome:
    """Run the command of ``options``; McvrpError if input or environment are invalid, if possible at once."""
    if options.command not in _BASE:
        require_pipeline(f"mcvrp {options.command}")
    return resolve_name(f"mcvrp.flows.cli.{options.function}")(options)


def of_stage(options: argparse.Namespace) -> Outcome:
    """Run the stage that the command is for: all commands without a function of their own."""
    if getattr(options, "instances", None):
        return _cvrplib(options)
    phase = getattr(options, "phase", None)
    stage = next(stage for stage in STAGES.values() if stage.command == options.command)
    preset, spec = preset_of(options, stage.sections)
    if stage.name == "nightly":
        _require_city_of_night(options, preset, spec.city.name)
    if phase is None:
        return run_stage(stage, writing(options), stage.asks(spec), preset)
    spec.train.phase(phase)  # the preset alone shows whether the phase exists
    alone = STAGES["train-phase"]
    return run_stage(alone, writing(options), {**alone.asks(spec), "phase": phase}, preset)


def preset_of(options: argparse.Namespace, sections: Collection[str] = ()) -> tuple[Preset, PipelineSpec]:
    """Return the preset of ``options``, by default the last one used on the store, and its spec.

    The spec has the ``sections``, (): all.
    """
    preset = Preset.chosen(options.preset, Store.at(settings.store_uri(options.store)))
    return preset, preset.spec(options.overrides, sections)


def _require_city_of_night(options: argparse.Namespace, preset: Preset, city: str) -> None:
    """Raise McvrpError unless ``city``, that of ``preset``, is the only one of the store, or was meant.

    The last preset used on the store may be of another city than that of the files in `incoming/`.
    """
    if options.city not in (None, city):
        raise McvrpError(
            f"--city {options.city}: preset {preset.name} is of city {city!r}: give that of the city, too "
            "(--preset)"
        )
    if options.preset or options.city:
        return
    cities = city_names(Store.at(settings.store_uri(options.store)))
    if len(cities) > 1:
        raise McvrpError(
            f"the store has several cities, {listed(cities)}: name that of the night by --preset, or by "
            f"--city {city} if the last preset used on this store, {preset.name}, is meant"
        )


def run_stage(
    stage: Stage, store: Store, parameters: dict[str, Any], preset: Preset | None = None
) -> Outcome:
    """Check the parameters of ``stage``, run its flow with a Prefect server, and return its result.

    The store keeps ``preset``, from which the parameters are, as the default of later commands.
    """
    # Only the specs of this stage: `label` needs no ranks. Before its city is read, which may not exist.
    check_cores(**{name: parameters[name] for name in ("label", "train", "benchmark") if name in parameters})
    cities = {}
    if stage.name == "pipeline":  # its city may not exist yet
        stage.load_check()(store, *parameters.values())
    elif stage.check:
        name, *specs = parameters.values()
        city = cities[store.uri, name] = stored_city(store, name)
        stage.load_check()(store, city, *specs)
    if preset:
        preset.record(store)
    from mcvrp.flows.server.records import Records

    result = _on_record(stage.load_flow(), Records(cities=cities), **parameters, store=store.uri)
    figures = stage.figures_in(store, result, parameters)
    parts = markdown_text(stage.summary("tables", result)), aligned(figures)
    lacks = stage.summary("lacks", result)
    code = IncompleteError.exit_code if lacks else 0
    return Outcome(plain(result), "\n\n".join(filter(None, parts)), code, lacks)


def _on_record(flow: Any, records: Any, **parameters: Any) -> Any:
    """Run ``flow`` with a Prefect server, and verify afterwards that it has a record of every stage."""
    from mcvrp.flows.server.server import prefect_server

    with prefect_server(records) as server:
        # No address: its password would end up in the mails of cron and the logs of CI.
        if server.ours and sys.stderr.isatty() and settings.first_time("history"):
            logger.info("Prefect records each run with log and figures: mcvrp ui shows them")
        result = flow.recorded_in(records)(**parameters)
        records.verify()
    return result


def _cvrplib(options: argparse.Namespace) -> Outcome:
    from mcvrp.tasks.benchmark.cvrplib import run_cvrplib

    spec, store = preset_of(options, ["benchmark"])[1].benchmark, writing(options)
    result = run_cvrplib(store, options.instances, spec)
    rows = result.table.astype(object).where(result.table.notna(), None).to_dict("records")
    document = {"run": result.run, "answers": rows, "notes": result.notes}
    return Outcome(
        document, f"{markdown_text(result.markdown())}\n{store.url(layout.benchmark_dir(result.run))}"
    )


def plan(options: argparse.Namespace) -> Outcome:
    """`mcvrp plan`: the cost of a run of the preset."""
    from mcvrp.flows.cli.plan import make_plan, plan_text

    (preset, spec), city = preset_of(options), None
    if spec.city.source == "imported":
        # not opened: addresses of a file need no store
        city = plan_city(Store.at(settings.store_uri(options.store)), spec.city).city
        require_sizes(spec, city)
    estimate = make_plan(spec, preset.name, city=city)
    return Outcome(plain(estimate), plan_text(estimate))


def ui(options: argparse.Namespace) -> Outcome:
    """`mcvrp ui`: the Prefect server and UI, until a signal."""
    from mcvrp.flows.server.automations import check_webhook
    from mcvrp.flows.server.ui import serve

    if not 1 <= options.port <= 65535:
        raise McvrpError(f"--port must be 1 to 65535, not {options.port}")
    if options.notify:
        check_webhook(options.notify)
    if options.preset or options.overrides:  # the last one of the store may be incomplete
        preset_of(options)
    try:
        serve(options, writing(options).uri)
    except KeyboardInterrupt:  # the regular end
        return Outcome({"stopped": True}, "stopped: finished work is kept")


def create_city(options: argparse.Namespace) -> Outcome:
    """Create the city of the preset."""
    preset, spec = preset_of(options, ["city"])
    return _made(spec.city, writing(options), preset)


def import_or_extend(options: argparse.Namespace) -> Outcome:
    """Create a city from a file of addresses, or from a city and such a file."""
    if options.overrides:
        raise McvrpError(f"mcvrp city {options.action} uses no preset: use its options instead of --set")
    store = writing(options)
    # an invalid file is rejected before a server is started
    spec = _city_spec(options)
    if options.action == "extend" and not options.name:
        spec = _numbered(store, spec)
    else:
        plan_city(store, spec)
    return _made(spec, store)


def _made(spec: CitySpec, store: Store, preset: Preset | None = None) -> Outcome:
    if not missing_packages():
        return run_stage(STAGES["city"], store, {"city": spec}, preset)
    from mcvrp.flows.figures import CitySummary, city_figures

    if preset:
        preset.record(store)
    began = time.monotonic()
    summary = CitySummary.of(spec.name, make_city(store, spec), time.monotonic() - began)
    folder = store.url(layout.city_dir(spec.name))
    return Outcome(plain(summary), aligned({**city_figures(summary), "folder": folder}))


def _city_spec(options: argparse.Namespace) -> CitySpec:
    extends = layout.checked_name("city", options.city) if options.action == "extend" else None
    fields = {name: value for name in _CITY_FIELDS if (value := getattr(options, name, None)) is not None}
    if options.columns:
        fields["columns"] = options.columns
    addresses = {"file": options.file, **fields, **({"extends": extends} if extends else {})}
    name = options.name or extends or _file_name(options.file)
    data = {"name": name, "source": "imported", "addresses": addresses}
    return checked(
        CitySpec, data, lambda each: each.text.replace("[addresses] ", "").replace("addresses.", "--")
    )


def _numbered(store: Store, spec: CitySpec) -> CitySpec:
    """Return ``spec`` with the first name after its own, "lyon-2", "lyon-3", ..., that no other city has.

    The name is that of the city itself if it exists: a repeated command makes no second one.
    """
    match = re.fullmatch(r"(.*)-(\d+)", spec.name)
    stem, number = (match[1], int(match[2])) if match else (spec.name, 1)
    named = (spec.model_copy(update={"name": f"{stem}-{k}"}) for k in count(number + 1))
    return next(each for each in named if not _is_taken(store, each))


def _is_taken(store: Store, spec: CitySpec) -> bool:
    """Return whether another city has the name of ``spec``; McvrpError if ``spec`` is invalid itself."""
    exists = has_city(store, spec.name)
    try:
        plan_city(store, spec)
    except McvrpError:
        if not exists:
            raise
        return True
    return False


def _file_name(file: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(file.split(":")[-1]).stem).strip("-._") or "city"
