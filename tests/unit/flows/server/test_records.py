"""Tests of the records of runs: Prefect's hooks leave one each, whoever calls them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from prefect import Flow
from prefect.client.schemas.objects import FlowRun
from prefect.runner._hook_runner import HookRunner
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from prefect.states import Cancelling, Crashed

from mcvrp.flows.city import city
from mcvrp.flows.server.records import RECORDS, Record, flow_hooks, task_hooks

RUN = SimpleNamespace(id=uuid4(), name="label d")
STATE = SimpleNamespace(type=SimpleNamespace(value="CANCELLED"))


def test_the_runner_of_prefect_calls_the_hooks_of_a_flow() -> None:
    """What ends runs for a worker, or in place of one that was killed; an error of a hook is only logged."""
    run = FlowRun(id=RUN.id, name=RUN.name, flow_id=uuid4())

    async def resolve(run: FlowRun) -> Flow[Any, Any]:
        return city

    runner = HookRunner(resolve_flow=resolve)
    for ended, state in (
        (runner.run_crashed_hooks, Crashed()),
        (runner.run_cancellation_hooks, Cancelling()),
    ):
        RECORDS.clear()
        with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):  # there is no server here
            asyncio.run(ended(run, state))
        assert list(RECORDS) == [Record("flow", RUN.id, "label d", state.type.value)]
    RECORDS.clear()


def test_hooks_are_called_as_prefect_calls_them() -> None:
    """By position from the engine of a run, by name from the worker that cancels it."""
    for hooks in flow_hooks().values():
        for hook in hooks:
            RECORDS.clear()
            hook(None, RUN, STATE)
            hook(flow=None, flow_run=RUN, state=STATE)  # type: ignore[call-arg]
            assert list(RECORDS) == [Record("flow", RUN.id, "label d", "CANCELLED")]
    for hooks in task_hooks().values():
        for hook in hooks:
            RECORDS.clear()
            hook(None, RUN, STATE)
            assert list(RECORDS) == [Record("task", RUN.id, "label d", "CANCELLED")]
    RECORDS.clear()
