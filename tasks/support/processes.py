"""Child processes that never outlive us: stopped as a group, killed with us or with all descendants."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of <linux/prctl.h>
_LIBC = ctypes.CDLL(None, use_errno=True)
_ERROR_LINE = re.compile(r"^(\[rank\d+\]:\s*)?[\w.]*(Error|Exception|Interrupt)\b.*")
_RANDOM = random.SystemRandom()  # a seeded one would draw the same in two processes


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    with contextlib.suppress(AttributeError):  # Linux only; elsewhere stop_group has to do
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that `kill_descendants` finds it."""
    with contextlib.suppress(AttributeError):  # Linux only
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start_group(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdout: int | IO[str] | None = None,
    stderr: int | IO[str] | None = None,
    pass_fds: Sequence[int] = (),
    umask: int = -1,
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
        umask=umask,
        start_new_session=True,  # its id is that of its group: see `stop_group`
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


def below(root: int) -> list[psutil.Process]:
    """Return the running processes below ``root``, nearest first; none where it has ended."""
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(root).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def descendants(root: int) -> list[int]:
    """Return the ids of the running processes below ``root``, nearest first; none where it has ended."""
    return [process.pid for process in below(root)]


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill those that still run; another process that has got the number of one is left alone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.kill()


def kill_descendants() -> None:
    """Kill every process that this one started, directly or not."""
    for _ in range(3):  # one that forks while we look is found the next time
        left = below(os.getpid())
        kill_all(left)
        for process in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        if not left:
            return


def last_error(log: str) -> str:
    """Return the last line of ``log`` that names an exception, "" where none does."""
    found = [line for line in log.splitlines() if _ERROR_LINE.match(line)]
    return found[-1].strip() if found else ""


def free_port() -> int:
    """Return a port that is free now, below those that the system gives to connections.

    A port of the system's own choice may be an outgoing connection's before the server has started.
    """
    while True:
        port = _RANDOM.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
