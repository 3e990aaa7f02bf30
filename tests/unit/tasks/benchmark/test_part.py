"""Parts: other load on the machine, from its processor time minus that of our workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcvrp.tasks.benchmark.part import _BusyClock
from mcvrp.tasks.support.machine import busy_seconds

START = _BusyClock(wall=100.0, ours=7.0, anyone=1000.0)


@pytest.mark.parametrize(
    ("wall", "ours", "anyone", "workers", "others"),
    [
        (10.0, 10.0, 20.5, 2, 0.05),  # two workers, each on its own core
        (10.0, 5.0, 20.0, 2, 1.0),  # two workers with half a core each: others had the rest
        (10.0, 18.0, 20.0, 1, 0.2),  # a network on two cores
        (10.0, 10.0, 15.0, 2, 0.0),  # the other worker finished early: no other load, never negative
        (0.1, 0.1, 0.1, 1, None),  # too short for the kernel's ticks
    ],
)
def test_others_are_what_the_machine_did_beyond_our_workers(
    wall: float, ours: float, anyone: float, workers: int, others: float | None
) -> None:
    """Average number of cores, also if we may use all cores of the machine."""
    end = _BusyClock(START.wall + wall, START.ours + ours, (START.anyone or 0.0) + anyone)
    assert end.others_since(START, workers) == (None if others is None else pytest.approx(others))


def test_other_load_is_unknown_without_statistics() -> None:
    """No /proc/stat: unknown, not zero."""
    assert _BusyClock(200.0, 10.0, None).others_since(START, 1) is None


def test_our_own_work_is_part_of_the_machines() -> None:
    """Busy waiting increases the processor time of the machine."""
    start, busy = _BusyClock.read(), busy_seconds()
    if busy is None:
        pytest.skip("this system has no statistics of processor time")
    while _BusyClock.read().ours - start.ours < 0.3:
        pass
    after = busy_seconds()
    assert after is not None
    assert after - busy > 0.2


_BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); time.sleep(600)"


def test_child_processes_are_ours() -> None:
    """The processor time of running children is not other load."""
    began = _BusyClock.read()
    child = subprocess.Popen([sys.executable, "-c", _BURN], stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        assert _BusyClock.read().ours - began.ours > 0.4
    finally:
        child.kill()
        child.wait()
