"""What each command of `mcvrp` does: the flows, called in this process, and what to say afterwards."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mcvrp.flows.cli.output import aligned, plain
from mcvrp.flows.config import settings
from mcvrp.flows.config.preflight import (
    check_attention,
    check_benchmark,
    check_cores,
    check_labels,
    check_pipeline,
    check_training,
)
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import PipelineSpec, require_sizes
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import CitySpec, planned_city

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What a command found out: ``document`` for --json, ``text`` for a person, ``code`` to exit with."""

    document: Any
    text: str
    code: int = 0


def execute(options: argparse.Namespace) -> Outcome:
    """Run the command of ``options``.

    Raises
    ------
    McvrpError
        If the input or the environment is wrong; before work starts, wherever it can be seen then.
    """
    command = f"city {options.action}" if options.command == "city" else options.command
    return _COMMANDS[command](options)


def _run(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.output import pipeline_text

    spec, store = _checked(options)
    check_pipeline(store, spec)

    def work() -> Any:
        from mcvrp.flows.pipeline import pipeline

        return pipeline(spec, store.uri)

    done = _on_record(work)
    return Outcome(plain(done), pipeline_text(done))


def _plan(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.plan import make_plan, plan_text

    spec, city = load_preset(options.preset, options.overrides), None
    if spec.city.source == "imported":
        city = planned_city(Store.open(settings.store_uri(options.store), writable=False), spec.city)
        require_sizes(spec, city)
    plan = make_plan(spec, options.preset, city=city)
    return Outcome(plain(plan), plan_text(plan))


def _city(options: argparse.Namespace) -> Outcome:
    spec, store = _checked(options)
    return _make_city(spec.city, store)


def _import(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.options import imported

    if options.overrides:
        raise McvrpError(f"mcvrp city {options.action} reads no preset: give its options, not --set")
    store = Store.open(settings.store_uri(options.store))
    spec = imported(options, store)
    planned_city(store, spec)  # whatever is wrong with the file is said before a server is started
    return _make_city(spec, store)


def _make_city(spec: CitySpec, store: Store) -> Outcome:
    from mcvrp.flows.figures import city_figures

    def work() -> Any:
        from mcvrp.flows.city import city

        return city(spec, store.uri)

    done = _on_record(work)
    return Outcome(plain(done), f"{aligned(city_figures(done))}\n\n{store.url(layout.city_dir(spec.name))}")


def _label(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.figures import label_figures

    spec, store = _checked(options)
    check_labels(store, load_city(store, spec.city.name), spec.label)

    def work() -> Any:
        from mcvrp.flows.label import label

        return label(spec.city.name, spec.label, store.uri)

    done = _on_record(work)
    return Outcome(plain(done), aligned(label_figures(done)))


def _train(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.figures import phase_figures, train_figures

    if options.phase is not None:
        load_preset(options.preset, options.overrides).train.phase(options.phase)
    spec, store = _checked(options)
    check_training(store, load_city(store, spec.city.name), spec.train)

    def work() -> Any:
        from mcvrp.flows.train import train, train_phase_alone

        if options.phase is not None:
            return train_phase_alone(spec.city.name, spec.train, options.phase, store.uri)
        return train(spec.city.name, spec.train, store.uri)

    done = _on_record(work)
    figures = train_figures(done) if options.phase is None else phase_figures(done)
    return Outcome(plain(done), aligned(figures))


def _am(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.figures import attention_figures

    spec, store = _checked(options)
    check_attention(store, load_city(store, spec.city.name), spec.attention_models)

    def work() -> Any:
        from mcvrp.flows.attention import attention

        return attention(spec.city.name, spec.attention_models, store.uri)

    done = _on_record(work)
    return Outcome(plain(done), aligned(attention_figures(done)))


def _benchmark(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.output import aligned_table
    from mcvrp.flows.figures import benchmark_figures

    spec, store = _checked(options)
    city = load_city(store, spec.city.name)
    model = spec.train.model if spec.benchmark.neural else None
    named = spec.benchmark.model_copy(update={"attention": spec.benchmark.attention or spec.city.name})
    check_benchmark(store, city, named, model)

    def work() -> Any:
        from mcvrp.flows.benchmark import benchmark

        return benchmark(spec.city.name, spec.benchmark, model, store.uri)

    done = _on_record(work)
    table = aligned_table(done.summary.markdown.strip())
    return Outcome(plain(done), f"{table}\n\n{aligned(benchmark_figures(done))}")


def _solve(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.solve import solve

    return Outcome(*solve(options))


def _nightly(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.output import aligned_table
    from mcvrp.flows.figures import night_figures, night_tables
    from mcvrp.tasks.retrain.trial import check_trial

    spec, store = _checked(options)
    check_trial(store, load_city(store, spec.city.name), spec.night)

    def work() -> Any:
        from mcvrp.flows.nightly import nightly

        return nightly(spec.city.name, spec.night, store.uri)

    done = _on_record(work)
    tables = "\n\n".join(aligned_table(table) for table in night_tables(done).split("\n\n") if table)
    return Outcome(plain(done), f"{tables}\n\n{aligned(night_figures(done))}".strip())


def _improve(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.output import aligned_table
    from mcvrp.flows.figures import improve_figures, loop_table
    from mcvrp.tasks.retrain.trial import check_trial

    spec, store = _checked(options)
    check_trial(store, load_city(store, spec.city.name), spec.improvement)

    def work() -> Any:
        from mcvrp.flows.improve import improve

        return improve(spec.city.name, spec.improvement, store.uri)

    done = _on_record(work)
    return Outcome(plain(done), f"{aligned_table(loop_table(done))}\n\n{aligned(improve_figures(done))}")


def _inspect(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.inspect import draw, inspect

    store = Store.open(settings.store_uri(options.store), writable=False)
    if options.draw:
        (n, i), out = options.draw, Path(options.out) if options.out else None
        found = draw(store, options.path, n, i, out)
    elif options.out:
        raise McvrpError("--out says where to draw: give --draw N I with it")
    else:
        found = inspect(store, options.path)
    return Outcome(found.document, found.text)


def _verify(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.verify import verification_document, verification_text, verified

    store = Store.open(settings.store_uri(options.store), writable=False)
    dataset, workers = options.dataset, None
    if dataset is None or options.overrides:
        spec = load_preset(options.preset, options.overrides).label
        dataset, workers = dataset or spec.dataset, spec.workers
    report, seconds = verified(store, dataset.removeprefix("labels/").strip("/"), workers)
    code = 0 if report.good else IncompleteError.exit_code
    return Outcome(verification_document(report, seconds), verification_text(report, seconds), code)


def _gc(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import cleaning_document, cleaning_text
    from mcvrp.tasks.gc.cleaning import clean

    policy = load_preset(options.preset, options.overrides).gc
    store = Store.open(settings.store_uri(options.store), writable=options.delete)
    cleaning = clean(store, policy, delete=options.delete, cache=settings.cache_dir())
    return Outcome(cleaning_document(cleaning), cleaning_text(cleaning))


def _models(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import list_models

    found = list_models(Store.open(settings.store_uri(options.store), writable=False), options.model)
    return Outcome(found.document, found.text)


def _promote(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import promote_version

    store = Store.open(settings.store_uri(options.store))
    found = promote_version(store, options.model, options.version, options.why)
    return Outcome(found.document, found.text)


def _rollback(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.cli.models import roll_back_champion

    name = options.model or load_preset(options.preset, options.overrides).train.model
    found = roll_back_champion(Store.open(settings.store_uri(options.store)), name, options.why)
    return Outcome(found.document, found.text)


def _ui(options: argparse.Namespace) -> Outcome:
    from mcvrp.flows.server.notify import check_address
    from mcvrp.flows.server.ui import Options, serve

    if not 1 <= options.port <= 65535:
        raise McvrpError(f"--port must be 1 to 65535, not {options.port}")
    if options.notify:
        check_address(options.notify)
    _, store = _checked(options)
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


_COMMANDS: dict[str, Callable[[argparse.Namespace], Outcome]] = {
    "run": _run,
    "plan": _plan,
    "city create": _city,
    "city import": _import,
    "city extend": _import,
    "label": _label,
    "train": _train,
    "am": _am,
    "benchmark": _benchmark,
    "nightly": _nightly,
    "improve": _improve,
    "solve": _solve,
    "inspect": _inspect,
    "verify": _verify,
    "gc": _gc,
    "models": _models,
    "promote": _promote,
    "rollback": _rollback,
    "ui": _ui,
}


def _checked(options: argparse.Namespace) -> tuple[PipelineSpec, Store]:
    """Return spec and store, having looked for all that can be wrong before a server is started."""
    spec = load_preset(options.preset, options.overrides)
    store = Store.open(settings.store_uri(options.store))
    check_cores(spec.label, spec.train, spec.benchmark)
    return spec, store


def _on_record(work: Callable[[], T]) -> T:
    """Do ``work`` under a Prefect server, and see to it that every stage is on record afterwards."""
    from mcvrp.flows.server.records import RECORDS
    from mcvrp.flows.server.server import prefect_server

    RECORDS.clear()
    with prefect_server() as server:
        if server.ours:
            logger.info("Prefect: %s while this runs, `prefect server start` for the history", server.page)
        result = work()
        RECORDS.verify()
    return result
