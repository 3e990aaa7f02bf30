"""Stages of the pipeline as commands: they check, run the flow in this process, and return its summary."""

from __future__ import annotations

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.output import aligned, markdown_text, plain, writing
from mcvrp.flows.config import settings
from mcvrp.flows.config.inputs import checked_before
from mcvrp.flows.config.preset import Preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import city_names, stored_city
from mcvrp.storage.store.store import Store


def preset_of(common: Common) -> tuple[Preset, PipelineSpec]:
    """Return the preset, by default the last one used on the store, and its spec."""
    preset = Preset.chosen(common.preset, Store.at(settings.store_uri(common.store)))
    return preset, preset.spec(common.overrides)


def _require_city_of_night(common: Common, preset: Preset, city: str, named: str | None) -> None:
    """Raise McvrpError unless ``city``, that of ``preset``, is the only one of the store, or was ``named``.

    The last preset used on the store may be of another city than that of the files in `incoming/`.
    """
    chosen = common.preset or named or len(city_names(Store.at(settings.store_uri(common.store)))) < 2
    if named not in (None, city) or not chosen:
        raise McvrpError(
            f"preset {preset.name} is of city {city!r}: name that of the night by --preset or --city {city}"
        )


def run_stage(
    stage: Stage, common: Common, *, recorded: bool, phase: str | None = None, city: str | None = None
) -> Outcome:
    """Check the parameters of ``stage``, run its flow, with a Prefect server if ``recorded``.

    The store keeps the preset, from which the parameters are, as the default of later commands. ``phase`` is
    of the stage train, ``city``, which has to be that of the preset, of the stage nightly.
    """
    preset, spec = preset_of(common)
    if stage.name == "nightly":
        _require_city_of_night(common, preset, spec.city.name, city)
    parameters = stage.asks(spec)
    if phase is not None:
        spec.train.phase(phase)  # the preset alone shows whether the phase exists
        stage, parameters = STAGES["train-phase"], {**parameters, "phase": phase}
    store, cities = writing(common), {}
    if stage.name == "pipeline":  # its city may not exist yet
        stage.load_check()(store, *parameters.values())
    elif stage.check:
        name, *specs = parameters.values()
        cities[store.uri, name] = stored_city(store, name)
        stage.load_check()(store, cities[store.uri, name], *specs)
    preset.record(store)
    from mcvrp.flows.server.server import prefect_server

    with prefect_server(wanted=recorded), checked_before(cities):
        result = stage.load_flow()(**parameters, store=store.uri)
    figures = stage.figures_in(store, result, parameters)
    parts = markdown_text(stage.summary("tables", result)), aligned(figures)
    lacks = stage.summary("lacks", result)
    code = IncompleteError.exit_code if lacks else 0
    return Outcome(plain(result), "\n\n".join(filter(None, parts)), code, lacks)


def benchmark_files(common: Common, folder: str) -> Outcome:
    """Run the benchmark on the CVRPLIB instances of ``folder``."""
    from mcvrp.tasks.benchmark.cvrplib import run_cvrplib

    spec, store = preset_of(common)[1].benchmark, writing(common)
    result = run_cvrplib(store, folder, spec)
    rows = result.table.astype(object).where(result.table.notna(), None).to_dict("records")
    document = {"run": result.run, "answers": rows, "notes": result.notes}
    written = store.url(layout.benchmark_dir(result.run))
    return Outcome(document, f"{markdown_text(result.markdown())}\n{written}")
