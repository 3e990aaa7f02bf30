"""Time limit of a day's search: wall-clock time, also on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solve import search
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.hgs import HGS
from tests.support.sweep import sweep

CITY = City.uniform(30, seed=1)
INSTANCE = InstanceStream(CITY, 1, "test")(20, 0)


@pytest.mark.parametrize(("on_cpu", "share"), [(True, 0.25), (False, 1.0)])
def test_a_busy_machine_is_noticed(monkeypatch: pytest.MonkeyPatch, on_cpu: bool, share: float) -> None:
    """The process got a quarter of the time; on a GPU, processor time is irrelevant."""
    clock = search._SearchClock(on_cpu=on_cpu)
    wall, processor = time.perf_counter(), time.process_time()
    monkeypatch.setattr(time, "perf_counter", lambda: wall + 40.0)
    monkeypatch.setattr(time, "process_time", lambda: processor + 10.0)
    assert clock.share() == pytest.approx(share, rel=1e-2)


def test_a_search_gets_its_share_of_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """HGS counts processor time: it gets 2 of 8 s on a machine that provides a quarter."""
    limits: list[float | None] = []

    def noted(self: HGS, city: City, day: Instance, seed: int, starts: Sequence[Solution]) -> Solution:
        limits.append(self.time_limit)
        return starts[0]

    monkeypatch.setattr(HGS, "search", noted)
    samples = [sweep(CITY, INSTANCE)]
    assert search._polished(CITY, INSTANCE, samples, SolveSpec(polish="hgs"), 8.0, 0.25) == samples
    assert limits == [2.0]
