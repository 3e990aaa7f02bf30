"""Child processes that run our modules, and the pipe to each: pickled, and read by our processes only.

Plain pickle: `Connection.send` would pass tensors as shared files, which only children that were started by
`multiprocessing` can open.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from mcvrp.tasks.support.processes import start_group, stop_group

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}


class Child:
    """Single-threaded process of ``module``, a separate program, not a fork of the caller.

    The kernel kills it when the thread that started it ends. Raises OSError if it cannot be started.
    """

    def __init__(self, module: str) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self._process = start_group(
                [sys.executable, "-m", module, str(theirs.fileno())],
                env={**os.environ, **_ENVIRONMENT},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # errors are messages
                pass_fds=[theirs.fileno()],
            )

    def stop(self, *, grace: float) -> None:
        """Stop the process, and kill it after ``grace`` seconds."""
        stop_group(self._process, grace=grace)

    def death(self) -> str:
        """Return how the process has ended, after it closed its end of the pipe."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        if self._process.returncode == -signal.SIGKILL:
            return "was killed, possibly because memory ran out"
        return f"ended with exit code {self._process.returncode}"


def parent() -> Connection:
    """Return the connection of a child to the process that started it."""
    return Connection(int(sys.argv[1]))


def send(connection: Connection, message: object) -> None:
    """Send ``message``; OSError if the other process has ended."""
    connection.send_bytes(pickle.dumps(message))


def receive(connection: Connection) -> Any:
    """Return the next message; EOFError or OSError if the other process has ended."""
    return pickle.loads(connection.recv_bytes())  # noqa: S301 our own process is at the other end
