"""Tests of what is declared in YAML: deployments point at flows, the stack listens to this machine only."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.utilities.callables import parameter_schema

ROOT = Path(__file__).parents[2]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
STACK: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: str(deployment["entrypoint"]))
def test_an_entrypoint_is_a_flow_whose_parameters_make_a_form(deployment: dict[str, Any]) -> None:
    """The flow is there, and each of its parameters, nested specs included, has a schema."""
    path, name = deployment["entrypoint"].split(":")
    flow = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    assert isinstance(flow, Flow)
    schema = parameter_schema(flow.fn)
    assert "store" in schema.properties
    assert schema.definitions


def test_every_stage_has_a_deployment() -> None:
    """A person can start each stage alone, or all of them, from the Prefect UI."""
    names = {deployment["entrypoint"].split(":")[1] for deployment in DEPLOYMENTS}
    assert names == {"city", "label", "train", "am", "benchmark", "pipeline"}


@pytest.mark.parametrize("name", STACK["services"])
def test_a_service_is_pinned_and_listens_to_this_machine_only(name: str) -> None:
    """Images have a version, ports are bound to the loopback address."""
    service = STACK["services"][name]
    tag = service["image"].rpartition(":")[2]
    assert any(character.isdigit() for character in tag)
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_whoever_trains_keeps_labels_on_a_volume() -> None:
    """Each service that can start a rank has the cache of labels on the volume, and is told where."""
    training = {name: s for name, s in STACK["services"].items() if "MCVRP_STORE" in s.get("environment", {})}
    del training["bucket"]
    assert training.keys() == {"ray-head", "ray-worker", "worker", "mcvrp"}
    for service in training.values():
        assert f"cache:{service['environment']['MCVRP_CACHE']}" in service["volumes"]
    assert "cache" in STACK["volumes"]
