"""Stages of the pipeline as commands: they check, run the flow in this process, and return its summary."""

from __future__ import annotations

import logging

from mcvrp.flows.cli.app import Outcome, WithPreset
from mcvrp.flows.cli.output import aligned, markdown_text, plain, writing
from mcvrp.flows.config.inputs import checked_before
from mcvrp.flows.config.preset import DEFAULT, Preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import Stage
from mcvrp.model.errors import IncompleteError
from mcvrp.storage.cities import stored_city

logger = logging.getLogger(__name__)


def preset_of(common: WithPreset) -> Preset:
    """Return the preset of ``common``, by default the demo's."""
    return Preset.read(common.preset or DEFAULT)


def spec_of(common: WithPreset) -> PipelineSpec:
    """Return the spec of the preset with the overrides."""
    return preset_of(common).spec(common.overrides)


def run_stage(stage: Stage, common: WithPreset, *, recorded: bool) -> Outcome:
    """Check the parameters of ``stage``, run its flow, with a Prefect server if ``recorded``."""
    store, preset = writing(common), preset_of(common)
    parameters = stage.asks(preset.spec(common.overrides))
    if stage.name == "pipeline":  # its city may not exist yet
        stage.load_check()(store, *parameters.values())
    else:
        name, *specs = parameters.values()
        stage.load_check()(store, stored_city(store, name), *specs)
    logger.info("preset %s, store %s", preset.name, store.url())
    from mcvrp.flows.server.server import prefect_server

    with prefect_server(wanted=recorded), checked_before():
        result = stage.load_flow()(**parameters, store=store.uri)
    figures = stage.summary("figures", result) | {"folder": store.url(stage.place(result, parameters))}
    parts = markdown_text(stage.summary("tables", result)), aligned(figures)
    lacks = stage.summary("lacks", result)
    code = IncompleteError.exit_code if lacks else 0
    return Outcome(plain(result), "\n\n".join(filter(None, parts)), code, lacks)
