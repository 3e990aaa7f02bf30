"""Tests of the pool of processes: equal results, no child that outlives its parent or is lost silently."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.tasks.support.pool import Pool
from mcvrp.tasks.support.processes import below


def children() -> list[Any]:
    """Return the children of pools of this process; other tests may have left other processes."""
    return multiprocessing.active_children()


def pid(context: tuple[object, ...], task: int) -> int:
    time.sleep(0.01)
    return os.getpid()


def product(context: tuple[int, str] | tuple[int], task: int) -> int:
    time.sleep(0.002)
    return context[0] * task


def mortal(context: tuple[int], task: int) -> int:
    time.sleep(0.01)
    if os.getpid() != context[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def refused(context: tuple[int], task: int) -> int:
    time.sleep(0.01)
    if os.getpid() != context[0]:
        raise McvrpError("no")
    return task


class Counted:
    """Object that counts its pickles."""

    sent = 0

    def __getstate__(self) -> dict[str, object]:
        Counted.sent += 1
        return {"text": "x"}


def warm(pool: Pool, processes: int) -> set[int]:
    """Return the ids of the processes of ``pool`` once ``processes`` of them have done a task."""
    deadline = time.monotonic() + 120
    pids: set[int] = set()
    while len(pids) < processes:
        assert time.monotonic() < deadline
        pids |= set(pool.map(pid, (), range(40)))
    return pids


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_tasks(processes: int) -> None:
    with Pool(processes, worth=0) as pool:
        assert len(warm(pool, processes)) == processes == pool.processes
        for factor in (2, 3):
            assert pool.map(product, (factor, "x"), range(100)) == [factor * k for k in range(100)]
        assert pool.map(product, (4,), []) == []
    assert not children()


def test_a_context_is_sent_once() -> None:
    one, other = Counted(), Counted()
    with Pool(2, worth=0) as pool:
        warm(pool, 2)
        for part, sent in ((one, 1), (one, 1), (other, 2)):
            assert len(set(pool.map(pid, (part,), range(40)))) == 2
            assert Counted.sent == sent


def test_little_work_starts_no_process() -> None:
    with Pool(4, worth=1e6) as pool:
        assert set(pool.map(pid, (), range(30))) == {os.getpid()}
        assert pool.processes == 1
        assert not children()
    with Pool(1, worth=0) as pool:
        assert set(pool.map(pid, (), range(30))) == {os.getpid()}


def test_a_child_that_is_killed_ends_the_work_in_one_sentence() -> None:
    """And leaves a pool that works."""
    with Pool(3, worth=0) as pool:
        warm(pool, 3)
        with pytest.raises(IncompleteError, match=r"a process was killed.* run the command again"):
            pool.map(mortal, (os.getpid(),), range(40))
        assert not children()
        assert pool.map(product, (2,), range(5)) == [0, 2, 4, 6, 8]


def test_an_error_in_a_child_is_raised_in_the_parent() -> None:
    with Pool(2, worth=0) as pool:
        warm(pool, 2)
        with pytest.raises(McvrpError, match="no"):
            pool.map(refused, (os.getpid(),), range(40))
        assert not children()


SCRIPT = """
from mcvrp.tasks.support.pool import Pool
from tests.unit.tasks.support.test_pool import pid, warm
if __name__ == "__main__":
    pool = Pool(3, worth=0)
    print(len(warm(pool, 3)), flush=True)
    while True:
        pool.map(pid, (), range(20))
"""


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_end_with_their_parent(ended: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "3\n"
    alive = below(process.pid)
    assert len(alive) >= 2
    process.send_signal(ended)
    process.wait(30)
    _, alive = psutil.wait_procs(alive, timeout=30)
    assert not alive
