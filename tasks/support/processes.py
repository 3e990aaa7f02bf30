"""Child processes that never outlive their parent, free ports, and pipes to those that run our modules.

Messages are pickled, and read by our processes only; shared arrays are sent as references. `Connection.send`
would pass tensors as shared files, which only children that were started by `multiprocessing` can open.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of <linux/prctl.h>
_LIBC = ctypes.CDLL(None, use_errno=True)
_RANDOM = random.SystemRandom()  # a seeded generator would draw the same ports in two processes
# Of single-threaded children. The last: a user's json.py in the working directory would hide Python's.
CHILD_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started in this context; restore all afterwards."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def die_with_parent(parent: int | None = None) -> None:
    """Make the kernel kill this process when the thread that started it ends.

    A process that calls it late, after its imports, gives the id of its ``parent``: it ends at once if that
    one has ended meanwhile.
    """
    with contextlib.suppress(AttributeError):  # Linux only; elsewhere there is `stop_group`
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent not in (None, os.getppid()):
        os._exit(1)


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of descendants whose parent ends, so that `kill_descendants` finds them."""
    with contextlib.suppress(AttributeError):  # Linux only
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def start_group(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start ``command`` in its own process group, which Ctrl-C in the terminal does not reach.

    The kernel kills the process when the calling thread ends: call it from the thread that waits for it.
    ``options`` are those of `subprocess.Popen`, such as its environment and output.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # its id is also the id of its group: see `stop_group`
        preexec_fn=die_with_parent,
        **options,
    )


def stop_group(process: subprocess.Popen[str], *, grace: float = 3.0) -> None:
    """Terminate all processes of a group, and kill those that still run after ``grace`` seconds."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        os.killpg(process.pid, signal.SIGKILL)  # grandchildren may outlive the leader
    process.wait()


def below(root: int) -> list[psutil.Process]:
    """Return the running descendants of process ``root``, parents first."""
    running: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        running = [process for process in psutil.Process(root).children(recursive=True) if is_alive(process)]
    return running


def is_alive(process: psutil.Process) -> bool:
    """Return whether it is running: neither gone, nor a zombie, nor another process of its number."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_descendants() -> None:
    for _ in range(3):  # a process that forked in between is found by the next iteration
        running = below(os.getpid())
        for process in running:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        if not running:
            return


def free_port() -> int:
    """Return a free port below the range of ephemeral ports.

    A port chosen by the system may be used by an outgoing connection before the server starts.
    """
    while True:
        port = _RANDOM.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Child:
    """Single-threaded process of ``module``, a separate program, not a fork of the caller.

    The kernel kills it when the thread that started it ends. Raises OSError if it cannot be started.
    """

    def __init__(self, module: str) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self._process = start_group(
                [sys.executable, "-m", module, str(theirs.fileno())],
                env={**os.environ, **CHILD_ENVIRONMENT},
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
        code = self._process.returncode
        if code is None:
            return "stopped answering"
        if code == -signal.SIGKILL:
            return "was killed, possibly because memory ran out"
        return f"died with {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def parent() -> Connection:
    """Return the connection of a child to the process that started it."""
    return Connection(int(sys.argv[1]))


def send(connection: Connection, message: object) -> None:
    """Send ``message``; OSError if the other process has ended."""
    from mcvrp.shared_array import dumps  # NumPy, which `mcvrp --help` does without

    connection.send_bytes(dumps(message))


def receive(connection: Connection) -> Any:
    """Return the next message; EOFError or OSError if the other process has ended."""
    return pickle.loads(connection.recv_bytes())  # noqa: S301 our own process is at the other end
