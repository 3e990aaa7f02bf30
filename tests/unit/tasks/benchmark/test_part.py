"""Parts: other load on the machine, from its processor time minus that of our workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcvrp.tasks.benchmark.part import _BusyClock, busy_seconds

START = _BusyClock(wall=100.0, ours=7.0, anyone=1000.0)


@pytest.mark.parametrize(
    ("wall", "ours", "anyone", "workers", "others"),
    [
        (10.0, 10.0, 20.5, 2, 0.05),  # two workers, each on its own core
        (10.0, 5.0, 20.0, 2, 1.0),  # two workers with half a core each: others had the rest
        (10.0, 18.0, 20.0, 1, 0.2),  # a network on two cores
        (10.0, 10.0, 15.0, 2, 0.0),  # the other worker finished early: no other load, never negative
        (0.1, 0.1, 0.1, 1, None),  # too short for the kernel's ticks
        (10.0, 10.0, None, 1, None),  # no /proc/stat: unknown, not zero
    ],
)
def test_others_are_what_the_machine_did_beyond_our_workers(
    wall: float, ours: float, anyone: float | None, workers: int, others: float | None
) -> None:
    """Average number of cores, also if we may use all cores of the machine."""
    end = _BusyClock(START.wall + wall, START.ours + ours, None if anyone is None else 1000.0 + anyone)
    assert end.others_since(START, workers) == (None if others is None else pytest.approx(others))


_BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); time.sleep(600)"


def test_work_of_our_processes_is_ours_and_the_machines() -> None:
    """Running children included."""
    start, busy = _BusyClock.read(), busy_seconds()
    child = subprocess.Popen([sys.executable, "-c", _BURN], stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        assert _BusyClock.read().ours - start.ours > 0.4
        after = busy_seconds()
        assert busy is None or after is None or after - busy > 0.4
    finally:
        child.kill()
        child.wait()
