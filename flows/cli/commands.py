"""Commands of `mcvrp`: they run flows in this process and return their results as text and JSON."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcvrp.flows.cli.city import create_city, imported_city
from mcvrp.flows.cli.output import Outcome, aligned, markdown_text, output_folder, plain
from mcvrp.flows.config import settings
from mcvrp.flows.config.extras import has_pipeline, require_pipeline
from mcvrp.flows.config.preflight import check_cores, checked, preflight
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import PipelineSpec, require_sizes
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import CitySpec, plan_city

logger = logging.getLogger(__name__)


def execute(options: argparse.Namespace) -> Outcome:
    """Run the command of ``options``.

    Raises
    ------
    McvrpError
        If the input or the environment is invalid, before work starts if possible.
    """
    if options.command not in _BASE:
        require_pipeline(f"mcvrp {options.command}")
    action = getattr(options, "action", None)
    command = f"{options.command} {action}" if action else options.command
    return _COMMANDS.get(command, _stage)(options)


def _stage(options: argparse.Namespace) -> Outcome:
    """Run the stage of the table whose command it is."""
    if getattr(options, "instances", None):
        return _cvrplib(options)
    phase = getattr(options, "phase", None)
    if phase is not None:  # the preset alone shows whether the phase exists
        load_preset(options.preset, options.overrides).train.phase(phase)
    spec, store = _inputs(options)
    name = next(stage.name for stage in STAGES.values() if stage.command == options.command)
    if phase is None:
        return _run(STAGES[name], store, STAGES[name].asks(spec))
    alone = STAGES["train-phase"]
    return _run(alone, store, {**alone.asks(spec), "phase": phase})


def _run(stage: Stage, store: Store, parameters: dict[str, Any]) -> Outcome:
    """Check the parameters of ``stage``, run its flow with a Prefect server, and return its result."""
    # Only the specs of this stage: `label` needs no ranks. Before its city is read, which may not exist.
    check_cores(**{name: parameters[name] for name in ("label", "train", "benchmark") if name in parameters})
    cities = []
    if stage.name == "pipeline":  # its city may not exist yet
        stage.load_check()(store, *parameters.values())
    elif stage.check:
        cities.append(preflight(stage.load_check(), store, *parameters.values()))
    with checked(store, *cities):
        result = _on_record(stage.load_flow(), **parameters, store=store.uri)
    parts = markdown_text(stage.load_tables()(result)), aligned(stage.load_figures()(result))
    lacks = stage.load_lacks()(result)
    code = IncompleteError.exit_code if lacks else 0
    return Outcome(plain(result), "\n\n".join(filter(None, parts)), code, lacks)


def _on_record(flow: Any, **parameters: Any) -> Any:
    """Run ``flow`` with a Prefect server, and verify afterwards that it has a record of every stage."""
    from mcvrp.flows.server.records import Records
    from mcvrp.flows.server.server import prefect_server

    records = Records()
    with prefect_server(records) as server:
        if server.ours:
            logger.info("Prefect: %s during this run; prefect server start shows the history", server.link)
        result = flow.recorded_in(records)(**parameters)
        records.verify()
    return result


def _cvrplib(options: argparse.Namespace) -> Outcome:
    from mcvrp.tasks.benchmark.cvrplib import run_cvrplib

    spec = load_preset(options.preset, options.overrides).benchmark
    store = _writing(options)
    result = run_cvrplib(store, options.instances, spec)
    rows = result.table.astype(object).where(result.table.notna(), None).to_dict("records")
    document = {"run": result.run, "answers": rows, "notes": result.notes}
    return Outcome(document, f"{result.markdown()}\n{store.url(layout.benchmark_dir(result.run))}")


def _plan(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.plan import make_plan, plan_text

    spec, city = load_preset(options.preset, options.overrides), None
    if spec.city.source == "imported":
        city = plan_city(_reading(options), spec.city).city
        require_sizes(spec, city)
    plan = make_plan(spec, options.preset, city=city)
    return Outcome(plain(plan), plan_text(plan))


def _create(options: argparse.Namespace) -> Outcome:
    spec, store = _inputs(options)
    return _make(spec.city, store)


def _import(options: argparse.Namespace) -> Outcome:
    if options.overrides:
        raise McvrpError(f"mcvrp city {options.action} uses no preset: use its options instead of --set")
    store = _writing(options)
    spec = imported_city(options, store)
    plan_city(store, spec)  # an invalid file is rejected before a server is started
    return _make(spec, store)


def _make(spec: CitySpec, store: Store) -> Outcome:
    city = _run(STAGES["city"], store, {"city": spec}) if has_pipeline() else create_city(spec, store)
    return Outcome(city.document, f"{city.text}\n\n{store.url(layout.city_dir(spec.name))}")


def _solve(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.solve import solve

    return solve(options)


def _inspect(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.inspect import draw, inspect

    store = _reading(options)
    if options.draw:
        (n, i), out = options.draw, Path(options.out) if options.out else None
        return draw(store, options.path or "", n, i, out)
    if options.out:
        raise McvrpError("--out is the output file of --draw: give --draw N I, too")
    return inspect(store, options.path or "")


def _verify(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.verify import verification_document, verification_text
    from mcvrp.tasks.label.verify import verify_dataset

    store, dataset, workers = _reading(options).outlasting(), options.dataset, None
    if dataset is None or options.overrides:
        spec = load_preset(options.preset, options.overrides).label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    report = verify_dataset(store, dataset.removeprefix("labels/").strip("/"), workers=workers)
    seconds = time.monotonic() - began
    code = 0 if report.good else IncompleteError.exit_code
    return Outcome(verification_document(report, seconds), verification_text(report, seconds), code)


def _gc(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import cleaning_document, cleaning_text
    from mcvrp.tasks.gc.cleaning import clean

    policy = load_preset(options.preset, options.overrides).gc
    store = _writing(options) if options.delete else _reading(options).outlasting()
    cleaning = clean(store, policy, delete=options.delete, cache=settings.cache_dir())
    return Outcome(cleaning_document(cleaning), cleaning_text(cleaning))


def _list_models(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import list_models

    return list_models(_reading(options), getattr(options, "model", None))


def _export(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import export_model

    return export_model(_reading(options), options.model, options.folder, options.city)


def _import_model(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import import_model

    return import_model(options.folder, output_folder(settings.store_uri(options.store)), options.name)


def _promote(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import promote_version

    return promote_version(_writing(options), options.model, options.version, options.why or "")


def _rollback(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import roll_back_champion

    name = options.model or load_preset(options.preset, options.overrides).train.model
    return roll_back_champion(_writing(options), name, options.why or "")


def _ui(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.server.automations import check_webhook
    from mcvrp.flows.server.ui import Options, serve

    if not 1 <= options.port <= 65535:
        raise McvrpError(f"--port must be 1 to 65535, not {options.port}")
    if options.notify:
        check_webhook(options.notify)
    _, store = _inputs(options)
    serve_options = Options(
        store=store.uri,
        preset=options.preset,
        overrides=options.overrides,
        port=options.port,
        database=options.database,
        notify=options.notify,
    )
    try:
        serve(serve_options)
    except KeyboardInterrupt:  # the regular end
        return Outcome({"stopped": True}, "stopped: finished work is kept")


# Commands that need only the base of the installation.
_BASE = {"plan", "city", "solve", "inspect", "gc", "models", "promote", "rollback"}
_COMMANDS: dict[str, Callable[[argparse.Namespace], Outcome]] = {  # the others are stages
    "plan": _plan,
    "city create": _create,
    "city import": _import,
    "city extend": _import,
    "solve": _solve,
    "inspect": _inspect,
    "verify": _verify,
    "gc": _gc,
    "models": _list_models,
    "models list": _list_models,
    "models show": _list_models,
    "models export": _export,
    "models import": _import_model,
    "promote": _promote,
    "rollback": _rollback,
    "ui": _ui,
}


def _reading(options: argparse.Namespace) -> Store:
    return Store.open(settings.store_uri(options.store), writable=False)


def _writing(options: argparse.Namespace) -> Store:
    """Return a writable store, which has to respond now, but is waited for later."""
    return Store.open(settings.store_uri(options.store)).outlasting()


def _inputs(options: argparse.Namespace) -> tuple[PipelineSpec, Store]:
    return load_preset(options.preset, options.overrides), _writing(options)
