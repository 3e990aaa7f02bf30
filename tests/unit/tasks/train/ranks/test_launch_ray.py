"""Following of ranks on a cluster, with a fake queue of events."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
from ray.util.queue import Empty

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankEvent, Refused
from mcvrp.tasks.train.ranks.launch_ray import _follow, _on_gpus
from tests.support.leases import taken_over
from tests.support.training import rank_job


class Reports:
    """A queue of events: gone once it is shut down, so that the rank that reports next fails."""

    def __init__(self, *events: RankEvent) -> None:
        self.events, self.gone, self.over = list(events), False, threading.Event()

    def get(self, timeout: float) -> RankEvent:
        assert not self.gone
        if not self.events:
            self.over.set()  # training ends while the queue is empty
            raise Empty
        return self.events.pop(0)

    def shutdown(self, force: bool) -> None:
        self.gone = force


def step(number: int) -> StepMetrics:
    return StepMetrics(number, number, 1.0, 0.5, math.nan, math.nan, 0.01, 1.0, 1.0)


def test_a_lost_lease_stops_the_ranks(tmp_path: Path) -> None:
    """After a takeover the next event is the last: the queue is shut down, and the ranks with it."""
    store = Store.open(tmp_path)
    job = rank_job(store, "I")
    taken_over(store, ".lease")
    taken_over(store, ".lease")

    class Losing(Progress):
        def update(self, done: int, note: str | None = None) -> None:
            super().update(done, note)
            if done == 2:
                with pytest.raises(McvrpError):
                    job.lease.confirm()

    reports, progress = Reports(step(1), step(2), step(3)), Losing("train I", 9, "steps")
    assert "belongs to process 7 on far" in str(_follow(job, reports, progress, reports.over))
    assert reports.gone
    assert progress.done == 2


def test_events_before_the_end_are_shown(tmp_path: Path) -> None:
    """Stopping follows the events to the last, a refusal among them, and does not shut down the queue."""
    reports, progress = Reports(step(1), Refused("no", 2), step(2)), Progress("train I", 9, "steps")
    job = rank_job(Store.open(tmp_path), "I")
    assert str(_follow(job, reports, progress, reports.over)) == "no"
    assert progress.done == 2
    assert not reports.gone


def test_ranks_are_all_on_gpus_or_none_is() -> None:
    """A cluster with fewer GPUs than ranks is refused, with the number that it has."""
    assert _on_gpus(2, 4)
    assert _on_gpus(2, 2)
    assert not _on_gpus(2, 0)
    with pytest.raises(McvrpError, match="ranks = 4, the Ray cluster has 2 GPUs: ask for 2 or fewer"):
        _on_gpus(4, 2)
