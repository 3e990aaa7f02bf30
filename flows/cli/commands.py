"""Commands of `mcvrp`: they run flows in this process and return their results as text and JSON."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Collection
from pkgutil import resolve_name
from typing import Any

from mcvrp.flows.cli.output import Outcome, aligned, markdown_text, plain, reading, writing
from mcvrp.flows.config import settings
from mcvrp.flows.config.extras import require_pipeline
from mcvrp.flows.config.preflight import check_cores
from mcvrp.flows.config.preset import Preset
from mcvrp.flows.config.spec import PipelineSpec, require_sizes
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import stored_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import plan_city

logger = logging.getLogger(__name__)

# Commands that need only the base of the installation.
_BASE = {
    *("plan", "preset", "city", "solve", "inspect", "lineage", "gc"),
    *("models", "store", "promote", "rollback"),
}
# Functions in `flows.cli`, imported when they are used; the other commands are stages.
_COMMANDS = {
    "plan": "commands:plan",
    "preset new": "preset:new",
    "city create": "city:create",
    "city import": "city:import_or_extend",
    "city extend": "city:import_or_extend",
    "solve": "solve:solve",
    "inspect": "inspect:inspect_or_draw",
    "lineage": "lineage:lineage",
    "verify": "verify:verify",
    "gc": "models:clean_store",
    "models": "models:list_models",
    "models list": "models:list_models",
    "models show": "models:list_models",
    "models export": "models:export_model",
    "models import": "models:import_model",
    "store copy": "store:copy",
    "promote": "models:promote",
    "rollback": "models:roll_back_champion",
    "ui": "commands:ui",
}


def execute(options: argparse.Namespace) -> Outcome:
    """Run the command of ``options``; McvrpError if input or environment are invalid, if possible at once."""
    if options.command not in _BASE:
        require_pipeline(f"mcvrp {options.command}")
    action = getattr(options, "action", None)
    command = f"{options.command} {action}" if action else options.command
    if command not in _COMMANDS:
        return _stage(options)
    return resolve_name(f"mcvrp.flows.cli.{_COMMANDS[command]}")(options)


def _stage(options: argparse.Namespace) -> Outcome:
    if getattr(options, "instances", None):
        return _cvrplib(options)
    phase = getattr(options, "phase", None)
    stage = next(stage for stage in STAGES.values() if stage.command == options.command)
    preset, spec = preset_of(options, stage.sections)
    if phase is None:
        return run_stage(stage, writing(options), stage.asks(spec), preset)
    spec.train.phase(phase)  # the preset alone shows whether the phase exists
    alone = STAGES["train-phase"]
    return run_stage(alone, writing(options), {**alone.asks(spec), "phase": phase}, preset)


def preset_of(
    options: argparse.Namespace, sections: Collection[str] = (), *, stored: bool = True
) -> tuple[Preset, PipelineSpec]:
    """Return the preset of ``options`` and the spec of its ``sections``, (): all.

    Without --preset it is the last one used on the store, unless that is not to be read (``stored``).
    """
    preset = Preset.chosen(options.preset, Store.at(settings.store_uri(options.store)) if stored else None)
    return preset, preset.spec(options.overrides, sections)


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
    return Outcome(document, f"{result.markdown()}\n{store.url(layout.benchmark_dir(result.run))}")


def plan(options: argparse.Namespace) -> Outcome:
    """`mcvrp plan`: the cost of a run of the preset."""
    from mcvrp.flows.cli.plan import make_plan, plan_text

    (preset, spec), city = preset_of(options), None
    if spec.city.source == "imported":
        city = plan_city(reading(options), spec.city).city
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
    preset_of(options)
    try:
        serve(options, writing(options).uri)
    except KeyboardInterrupt:  # the regular end
        return Outcome({"stopped": True}, "stopped: finished work is kept")
