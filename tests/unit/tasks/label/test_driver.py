"""What the driver takes for a worker that hangs: what has run too long while it was looking."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from mcvrp.tasks.label.driver import Driver, _Task
from mcvrp.tasks.label.plan import ShardJob


@pytest.mark.parametrize("looked_ago", [0.0, 4_000.0])
def test_while_the_driver_waited_nobody_hung(looked_ago: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge of 4,000 s is cancelled, unless the driver has waited for the store all the time."""
    cancelled: list[Any] = []
    monkeypatch.setattr(ray, "cancel", lambda reference, force: cancelled.append(reference))
    nothing: Any = None
    dataset: Any = SimpleNamespace(store=nothing)
    driver = Driver(dataset, nothing)
    task = _Task([ShardJob(20, 0, 0, 5, [], [], frozenset())], sent=time.monotonic() - 4_000)
    reference: Any = object()
    driver._in_flight[reference] = task
    driver._looked = time.monotonic() - looked_ago
    driver._cancel_hanging()
    assert cancelled == ([] if looked_ago else [reference])
