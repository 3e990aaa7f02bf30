"""Following ranks on a cluster, with a queue of reports that only pretends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.util.queue import Empty

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.lease import Holder, Lease
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.ranks.launch_ray import _Follower, _on_gpus


class Reports:
    """A queue of reports: gone once it is shut down, which the rank that reports next does not survive."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.events, self.gone = list(events), False

    def get(self, timeout: float) -> dict[str, Any]:
        assert not self.gone
        if not self.events:
            raise Empty
        return self.events.pop(0)

    def shutdown(self, force: bool) -> None:
        self.gone = force


def step(number: int) -> dict[str, Any]:
    return {
        "event": "step",
        "step": number,
        "problem_loss": 1.0,
        "solution_loss": None,
        "tokens_per_second": 1.0,
    }


def lease_at(store: Store) -> Lease:
    return Lease(store, "lease.json", "the run is being trained", Holder.here(), "")


def test_a_lost_lease_stops_the_ranks(tmp_path: Path) -> None:
    """A run that another process has taken over ends here: its next report is its last."""
    lease = lease_at(Store.open(tmp_path))

    class Losing(Progress):
        def update(self, done: int, note: str | None = None) -> None:
            super().update(done, note)
            if done == 2:
                with pytest.raises(McvrpError):
                    lease.confirm()  # there is no file

    reports, progress = Reports(step(1), step(2), step(3)), Losing("train I", 9, "steps")
    error = _Follower(lease, reports, progress).stop()
    assert "no longer names this process but nobody" in str(error)
    assert reports.gone
    assert progress.done == 2


def test_what_was_reported_before_the_end_is_shown(tmp_path: Path) -> None:
    """Stopping follows the reports to the last, a refusal among them, and leaves the queue alone."""
    refusal = {"event": "refused", "message": "no", "exit_code": 2}
    reports, progress = Reports(step(1), refusal, step(2)), Progress("train I", 9, "steps")
    follower = _Follower(lease_at(Store.open(tmp_path)), reports, progress)
    assert str(follower.stop()) == str(follower.stop()) == "no"
    assert progress.done == 2
    assert not reports.gone


def test_ranks_are_all_on_gpus_or_none_is() -> None:
    """A cluster with some GPUs, but fewer than ranks, is refused with the number that it has."""
    assert _on_gpus(2, 4)
    assert _on_gpus(2, 2)
    assert not _on_gpus(2, 0)
    with pytest.raises(McvrpError, match="ranks = 4, the Ray cluster has 2 GPUs: ask for 2 or fewer"):
        _on_gpus(4, 2)
