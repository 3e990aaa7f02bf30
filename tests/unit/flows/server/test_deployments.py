"""Tests of what is declared in YAML: deployments point at flows."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.utilities.callables import parameter_schema

ROOT = Path(__file__).parents[4]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: str(deployment["entrypoint"]))
def test_an_entrypoint_is_a_flow_whose_parameters_make_a_form(deployment: dict[str, Any]) -> None:
    """The flow is there, and each of its parameters, nested specs included, has a schema."""
    module, _, name = deployment["entrypoint"].rpartition(".")
    flow = getattr(importlib.import_module(module), name)
    assert isinstance(flow, Flow)
    schema = parameter_schema(flow.fn)
    assert "store" in schema.properties
    assert schema.definitions


def test_every_stage_has_a_deployment() -> None:
    """A person can start each stage alone, or all of them, from the Prefect UI."""
    names = {deployment["entrypoint"].split(".")[-1] for deployment in DEPLOYMENTS}
    stages = {"city", "label", "train", "attention", "benchmark", "solve", "nightly", "improve"}
    assert names == {*stages, "pipeline"}
