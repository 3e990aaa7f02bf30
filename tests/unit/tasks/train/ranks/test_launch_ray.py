"""Following of ranks on a cluster, with a fake queue of events."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.util.queue import Empty

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.lease import Holder, Lease
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.events import RankEvent, Refused
from mcvrp.tasks.train.ranks.launch_ray import _Follower, _on_gpus


class Reports:
    """A queue of events: gone once it is shut down, so that the rank that reports next fails."""

    def __init__(self, *events: RankEvent) -> None:
        self.events, self.gone = list(events), False

    def get(self, timeout: float) -> RankEvent:
        assert not self.gone
        if not self.events:
            raise Empty
        return self.events.pop(0)

    def shutdown(self, force: bool) -> None:
        self.gone = force


def step(number: int) -> StepMetrics:
    return StepMetrics(number, number, 1.0, 0.5, math.nan, math.nan, 0.01, 1.0, 1.0, 0.0)


def lease_in(folder: Path) -> Lease:
    return Lease(Store.open(folder), "lease.json", "the run is being trained", Holder.here(), "")


def follow(lease: Lease, reports: Reports, progress: Progress) -> _Follower:
    return _Follower(SimpleNamespace(lease=lease), reports, progress)  # type: ignore[arg-type]


def test_a_lost_lease_stops_the_ranks(tmp_path: Path) -> None:
    """After a takeover the next event is the last: the queue is shut down, and the ranks with it."""
    lease = lease_in(tmp_path)

    class Losing(Progress):
        def update(self, done: int, note: str | None = None) -> None:
            super().update(done, note)
            if done == 2:
                with pytest.raises(McvrpError):
                    lease.confirm()  # there is no file

    reports, progress = Reports(step(1), step(2), step(3)), Losing("train I", 9, "steps")
    error = follow(lease, reports, progress).stop()
    assert "has been removed" in str(error)
    assert reports.gone
    assert progress.done == 2


def test_events_before_the_end_are_shown(tmp_path: Path) -> None:
    """Stopping follows the events to the last, a refusal among them, and does not shut down the queue."""
    reports, progress = Reports(step(1), Refused("no", 2), step(2)), Progress("train I", 9, "steps")
    follower = follow(lease_in(tmp_path), reports, progress)
    assert str(follower.stop()) == str(follower.stop()) == "no"
    assert progress.done == 2
    assert not reports.gone


def test_ranks_are_all_on_gpus_or_none_is() -> None:
    """A cluster with fewer GPUs than ranks is refused, with the number that it has."""
    assert _on_gpus(2, 4)
    assert _on_gpus(2, 2)
    assert not _on_gpus(2, 0)
    with pytest.raises(McvrpError, match="ranks = 4, the Ray cluster has 2 GPUs: ask for 2 or fewer"):
        _on_gpus(4, 2)
