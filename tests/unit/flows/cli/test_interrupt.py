"""Tests of the stop on a signal: with the right exit code, and without surviving processes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from mcvrp.tasks.support.processes import below, is_alive
from tests.support.shared import until

# With a child that has a child of its own in another session.
PROGRAM = """
import subprocess, sys, time
from mcvrp.flows.config.logs import terminal
from mcvrp.flows.cli.interrupt import stopping

sleeper = "import time; time.sleep(600)"
child = "import signal, subprocess, sys, time\\n"
child += "for number in (2, 15): signal.signal(number, signal.SIG_IGN)\\n"
child += f"subprocess.Popen([sys.executable, '-c', {sleeper!r}], start_new_session=True)\\n"
child += "time.sleep(600)"
try:
    with terminal(), stopping():
        subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
        sys.stderr.write("ready\\n")
        sys.stderr.flush()
        time.sleep(600)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_a_signal_ends_the_process_and_all_its_descendants() -> None:
    program = [sys.executable, "-c", PROGRAM]
    signals = (signal.SIGINT, signal.SIGTERM)  # to a process each
    processes = [subprocess.Popen(program, stderr=subprocess.PIPE, text=True) for _ in signals]
    for process in processes:
        assert process.stderr.readline() == "ready\n"
    until("their families", 30, lambda: all(len(below(each.pid)) == 2 for each in processes), 0.05)
    families = [member for process in processes for member in below(process.pid)]
    for process, number in zip(processes, signals, strict=True):
        process.send_signal(number)
    for process in processes:
        assert process.wait(60) == 130
        process.stderr.close()
    until("the end of their families", 30, lambda: not any(map(is_alive, families)), 0.05)
