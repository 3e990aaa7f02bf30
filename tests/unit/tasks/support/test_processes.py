"""Tests of child processes: descendants are found at any depth."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from mcvrp.tasks.support.processes import below


def test_descendants_are_found_at_any_depth() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & wait"])
    try:
        deadline = time.monotonic() + 30
        while len(running := below(shell.pid)) < 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert shell.pid in [process.pid for process in below(os.getpid())]
        assert set(running) <= set(below(os.getpid()))
        assert os.getpid() not in [process.pid for process in below(os.getpid())]
    finally:
        for pid in [*(process.pid for process in below(shell.pid)), shell.pid]:
            os.kill(pid, signal.SIGKILL)
        shell.wait()
    assert below(shell.pid) == []
