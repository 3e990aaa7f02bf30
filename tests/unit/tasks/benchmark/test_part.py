"""Tests of parts: who else was on the machine, by processor time of anyone less that of our workers."""

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
        (10.0, 10.0, 20.5, 2, 0.05),  # two workers, each on a core of its own
        (10.0, 5.0, 20.0, 2, 1.0),  # two workers that got half a core each: others had the rest
        (10.0, 18.0, 20.0, 1, 0.2),  # a network on two cores
        (10.0, 10.0, 15.0, 2, 0.0),  # the other worker was done early: nobody else, not fewer than nobody
        (0.1, 0.1, 0.1, 1, None),  # too short for the system's ticks
    ],
)
def test_others_are_what_the_machine_did_beyond_our_workers(
    wall: float, ours: float, anyone: float, workers: int, others: float | None
) -> None:
    """In cores, on average, also on a machine whose cores are all ours to use."""
    end = _BusyClock(START.wall + wall, START.ours + ours, (START.anyone or 0.0) + anyone)
    got = end.others_since(START, workers)
    assert got == (None if others is None else pytest.approx(others))


def test_a_system_that_does_not_tell_leaves_it_open() -> None:
    """No /proc/stat: unknown, not alone."""
    assert _BusyClock(200.0, 10.0, None).others_since(START, 1) is None


def test_our_own_work_counts_as_the_machines() -> None:
    """Spinning for a while shows in the time of all cores together, where the system tells."""
    start, busy = _BusyClock.read(), busy_seconds()
    if busy is None:
        pytest.skip("this system does not tell how busy it is")
    while _BusyClock.read().ours - start.ours < 0.3:
        pass
    after = busy_seconds()
    assert after is not None
    assert after - busy > 0.2


_BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); time.sleep(600)"


def test_processes_that_work_for_us_are_ours() -> None:
    """Those that are still there: what they have worked is nobody else's."""
    began = _BusyClock.read()
    child = subprocess.Popen([sys.executable, "-c", _BURN], stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        assert _BusyClock.read().ours - began.ours > 0.4
    finally:
        child.kill()
        child.wait()
