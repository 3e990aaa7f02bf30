"""Deployments of `mcvrp ui`: whose parameters they have."""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
from prefect.utilities.callables import parameter_schema

from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.stages import STAGES
from mcvrp.flows.server import deployments
from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.registry import offering
from tests.support.solving import put_day


def test_a_deployment_keeps_its_parameters_without_a_preset(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A night that is scheduled in one city does not move to that of a default."""
    smoke, laptop, store = load_preset("smoke"), load_preset("laptop"), Store.open(tmp_path / "store")
    stored = SimpleNamespace(
        schedules=[], paused=False, parameters=deployments.first_values("nightly", smoke)
    )
    read = Mock(return_value=stored)
    client = nullcontext(SimpleNamespace(read_deployment_by_name=read))
    monkeypatch.setattr(deployments, "get_client", lambda sync_client: client)
    assert deployments.deployment("nightly", None, store).parameters["city"] == "smoke"
    assert deployments.deployment("nightly", laptop, store).parameters["city"] == "laptop"
    read.side_effect = ObjectNotFound(Exception())
    assert deployments.deployment("pipeline", None, store).parameters["spec"]["city"]["name"] == "laptop"


def test_forms_offer_the_names_of_the_store(tmp_path: Path) -> None:
    put_day(store := Store.open(tmp_path / "store"))
    with offering(deployments.names_in(store)):
        properties = parameter_schema(STAGES["solve"].load_flow()).properties
    for field in ("city", "model"):
        first, other, none = properties[field]["anyOf"]
        assert (first["enum"], other["title"], none["type"]) == (["small"], "Other", "null")


def test_a_port_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of another `mcvrp ui`, whose server would answer, and ask for its password."""
    monkeypatch.setenv("MCVRP_STORE", "")  # `serve_stages` sets it
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        temporary_settings({PREFECT_HOME: tmp_path}, restore_defaults={PREFECT_API_URL}),
        pytest.raises(McvrpError, match=r"in use: .*give --port"),
    ):
        deployments.serve_stages(None, [], Store.open(tmp_path / "store"), other.getsockname()[1])


def test_a_lost_cancellation_is_repeated() -> None:
    lost = []

    async def service() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.append(True)
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(deployments.until_cancelled(service(), again=0.01))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert lost
