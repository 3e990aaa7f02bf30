"""Commands of `mcvrp`: the flows, called in this process, and what there is to say afterwards."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcvrp.flows.cli.city import imported, made_here
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
from mcvrp.tasks.city.make import CitySpec, planned_city

logger = logging.getLogger(__name__)


def execute(options: argparse.Namespace) -> Outcome:
    """Run the command of ``options``.

    Raises
    ------
    McvrpError
        If the input or the environment is wrong; before work starts, wherever it can be seen then.
    """
    if options.command not in _BASE:
        require_pipeline(f"mcvrp {options.command}")
    action = getattr(options, "action", None)
    command = f"{options.command} {action}" if action else options.command
    return _COMMANDS.get(command, _stage)(options)


def _stage(options: argparse.Namespace) -> Outcome:
    """Run a stage as the table of stages has it."""
    if getattr(options, "instances", None):
        return _cvrplib(options)
    phase = getattr(options, "phase", None)
    if phase is not None:  # before the store is opened: a phase that is not there is a matter of the preset
        load_preset(options.preset, options.overrides).train.phase(phase)
    spec, store = _asked(options)
    name = next(stage.name for stage in STAGES.values() if stage.command == options.command)
    if phase is None:
        return _run(STAGES[name], store, STAGES[name].asks(spec))
    alone = STAGES["train-phase"]
    return _run(alone, store, {**alone.asks(spec), "phase": phase})


def _run(stage: Stage, store: Store, asked: dict[str, Any]) -> Outcome:
    """Check what ``stage`` is asked, run its flow under a Prefect server, and say what came of it."""
    # Of this stage alone, and before a city is looked for: `label` needs no rank.
    check_cores(**{name: asked[name] for name in ("label", "train", "benchmark") if name in asked})
    read = []
    if stage.name == "pipeline":  # its city need not be there yet: the check plans it
        stage.load_check()(store, *asked.values())
    elif stage.check:
        read.append(preflight(stage.load_check(), store, *asked.values()))
    with checked(store, *read):
        done = _on_record(stage.load_flow(), **asked, store=store.uri)
    parts = markdown_text(stage.load_tables()(done)), aligned(stage.load_figures()(done))
    lacks = stage.load_lacks()(done)
    code = IncompleteError.exit_code if lacks else 0
    return Outcome(plain(done), "\n\n".join(filter(None, parts)), code, lacks)


def _on_record(flow: Any, **parameters: Any) -> Any:
    """Run ``flow`` under a Prefect server, and verify that its stages are on record afterwards."""
    from mcvrp.flows.server.records import Records
    from mcvrp.flows.server.server import prefect_server

    records = Records()
    with prefect_server(records) as server:
        if server.ours:
            logger.info("Prefect: %s while this runs, `prefect server start` for the history", server.link)
        result = flow.recorded_in(records)(**parameters)
        records.verify()
    return result


def _cvrplib(options: argparse.Namespace) -> Outcome:
    from mcvrp.tasks.benchmark.cvrplib import run_cvrplib

    spec = load_preset(options.preset, options.overrides).benchmark
    store = _writing(options)
    done = run_cvrplib(store, options.instances, spec)
    rows = done.table.astype(object).where(done.table.notna(), None).to_dict("records")
    document = {"run": done.run, "answers": rows, "notes": done.notes}
    return Outcome(document, f"{done.markdown()}\n{store.url(layout.benchmark_dir(done.run))}")


def _plan(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.plan import make_plan, plan_text

    spec, city = load_preset(options.preset, options.overrides), None
    if spec.city.source == "imported":
        city = planned_city(_reading(options), spec.city)
        require_sizes(spec, city)
    plan = make_plan(spec, options.preset, city=city)
    return Outcome(plain(plan), plan_text(plan))


def _create(options: argparse.Namespace) -> Outcome:
    spec, store = _asked(options)
    return _make(spec.city, store)


def _import(options: argparse.Namespace) -> Outcome:
    if options.overrides:
        raise McvrpError(f"mcvrp city {options.action} reads no preset: give its options, not --set")
    store = _writing(options)
    spec = imported(options, store)
    planned_city(store, spec)  # whatever is wrong with the file is said before a server is started
    return _make(spec, store)


def _make(spec: CitySpec, store: Store) -> Outcome:
    made = _run(STAGES["city"], store, {"city": spec}) if has_pipeline() else made_here(spec, store)
    return Outcome(made.document, f"{made.text}\n\n{store.url(layout.city_dir(spec.name))}")


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
        raise McvrpError("--out says where to draw: give --draw N I with it")
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

    return export_model(_reading(options), options.model, options.folder)


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
    _, store = _asked(options)
    asked = Options(
        store=store.uri,
        preset=options.preset,
        overrides=options.overrides,
        port=options.port,
        database=options.database,
        notify=options.notify,
    )
    try:
        serve(asked)
    except KeyboardInterrupt:  # the one way to end it
        return Outcome({"stopped": True}, "stopped: what is finished is kept")


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
    """Return the store of a command with something to lose: it has to answer at once, and may pause later."""
    return Store.open(settings.store_uri(options.store)).outlasting()


def _asked(options: argparse.Namespace) -> tuple[PipelineSpec, Store]:
    return load_preset(options.preset, options.overrides), _writing(options)
