"""Child processes that never outlive us: a group of their own, stopped as a whole, killed when we die."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    with contextlib.suppress(AttributeError):  # Linux only; elsewhere stop_group has to do
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_group(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdout: int | IO[str] | None = None,
    stderr: int | IO[str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Start ``command`` in a process group of its own; Ctrl-C in the terminal does not reach it.

    The kernel kills it when the thread that called this ends, so call it from the thread
    that waits for it.
    """
    return subprocess.Popen(
        command,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        pass_fds=pass_fds,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


def stop_group(process: subprocess.Popen[str], *, grace: float = 3.0) -> None:
    """Ask every process of the group to end, wait ``grace`` seconds, then kill what is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        os.killpg(process.pid, signal.SIGKILL)  # grandchildren may outlive the leader
    process.wait()


# Ports of this machine for servers that we start

_RANDOM = random.SystemRandom()  # a seeded one would draw the same in two processes


def free_port() -> int:
    """Return a port that is free now, below those that the system gives to connections.

    A port of the system's own choice may be an outgoing connection's before the server has started.
    """
    while True:
        port = _RANDOM.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
