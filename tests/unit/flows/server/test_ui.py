"""Deployments of `mcvrp ui`: whose parameters they have."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from prefect.exceptions import ObjectNotFound

from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.server import ui


def test_a_deployment_keeps_its_parameters_without_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A night that is scheduled in one city does not move to that of a default."""
    smoke, laptop = load_preset("smoke"), load_preset("laptop")
    stored = SimpleNamespace(schedules=[], paused=False, parameters=ui.first_values("nightly", smoke))
    read = Mock(return_value=stored)
    client = nullcontext(SimpleNamespace(read_deployment_by_name=read))
    monkeypatch.setattr(ui, "get_client", lambda sync_client: client)
    assert ui.deployment("nightly", None).parameters["city"] == "smoke"
    assert ui.deployment("nightly", laptop).parameters["city"] == "laptop"
    read.side_effect = ObjectNotFound(Exception())
    assert ui.deployment("nightly", None).parameters["city"] == "laptop"
