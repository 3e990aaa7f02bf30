"""States that the worker gives to runs whose process has ended without one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from prefect.workers.process import ProcessWorker

from mcvrp.flows.server.flow_worker import FlowWorker

EXITED = "Flow run infrastructure exited with non-zero status code"


@pytest.mark.parametrize(
    ("message", "proposed"),
    [
        (
            f"{EXITED} -9. Killed.",
            f"Interrupted, what is finished is kept, start again to resume ({EXITED} -9. Killed.)",
        ),
        (f"{EXITED} 1.", f"{EXITED} 1."),
    ],
)
def test_a_killed_run_can_be_resumed(monkeypatch: pytest.MonkeyPatch, message: str, proposed: str) -> None:
    messages = list[str]()

    async def propose(self: object, run: object, text: str, client: object) -> None:
        messages.append(text)

    monkeypatch.setattr(ProcessWorker, "_propose_crashed_state", propose)
    worker = object.__new__(FlowWorker)
    asyncio.run(worker._propose_crashed_state(cast(Any, None), message))
    assert messages == [proposed]
