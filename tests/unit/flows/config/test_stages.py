"""Tests of the table of stages: its paths exist, and a row has the parameters of its flow."""

from __future__ import annotations

import inspect

import pytest

from mcvrp.flows import figures
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.stages import STAGES, Stage
from mcvrp.flows.server.deployments import deployments


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_paths_of_a_row_exist(stage: Stage) -> None:
    assert stage.load_flow().name == stage.name  # type: ignore[attr-defined]
    assert not stage.check or callable(stage.load_check())
    for function in (stage.figures, stage.tables, stage.lacks):
        assert not function or callable(getattr(figures, function))


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_row_has_the_parameters_of_its_flow(stage: Stage) -> None:
    """In the order of the flow and its check, but for those of the command line and of a day."""
    parameters = list(inspect.signature(stage.load_flow().fn).parameters)  # type: ignore[attr-defined]
    others = {"store", "phase", "orders", "capacity", "start", "unrounded"}
    assert list(stage.asks(load_preset("smoke"))) == [name for name in parameters if name not in others]


def test_every_deployment_is_a_stage() -> None:
    assert {deployment.name for deployment in deployments()} == set(STAGES) - {"train-phase"}
