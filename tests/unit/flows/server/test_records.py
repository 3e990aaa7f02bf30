"""Tests of the records of runs: Prefect's hooks leave one each, whoever calls them."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

from mcvrp.flows.server.records import RECORDS, Record, flow_hooks, task_hooks

RUN = SimpleNamespace(id=uuid4(), name="label d")
STATE = SimpleNamespace(type=SimpleNamespace(value="CANCELLED"))


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
