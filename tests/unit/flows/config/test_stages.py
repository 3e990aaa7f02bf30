"""Tests of the table of stages: each name in it is of something, and a row asks what its flow takes."""

from __future__ import annotations

import inspect

import pytest

from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.flows.server.deployments import deployments


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_row_names_what_there_is(stage: Stage) -> None:
    """Flow, check, figures and tables can be imported, and the flow has the name of its row."""
    assert stage.load_flow().name == stage.name  # type: ignore[attr-defined]
    for load in (stage.load_check, stage.load_figures, stage.load_tables):
        if getattr(stage, load.__name__.removeprefix("load_")):
            assert callable(load())


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_row_asks_what_its_flow_takes(stage: Stage) -> None:
    """In the flow's order, which is that of the check; of the phase the command knows, of a day a person."""
    taken = list(inspect.signature(stage.load_flow().fn).parameters)  # type: ignore[attr-defined]
    left = {"store", "phase", "orders", "capacity", "start", "unrounded"}
    assert list(stage.asks(load_preset("smoke"))) == [name for name in taken if name not in left]


def test_every_deployment_is_a_stage() -> None:
    """Its form begins with what the row asks."""
    assert {deployment.name for deployment in deployments()} == set(STAGES) - {"train-phase"}
