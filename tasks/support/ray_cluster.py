"""Joining a Ray cluster as its driver, through a node without cores that is held on this machine.

Ray only lets a driver connect from a host that is a node of the cluster.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import ray

from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.tasks.support.processes import start_group, stop_group
from mcvrp.tasks.support.scratch import scratch_folder

JOIN_SECONDS = 120.0  # measured 6 s on two idle cores, 25 s on busy ones
_CONNECT_SECONDS = 8.0  # for a cluster's port to open
_HEALTH_SECONDS = 40.0  # for Ray's health check, whose process alone takes 2 s of a core to start
_HEAD_SECONDS = 60.0  # from a head's first answer to the node that others need to join
_REJOIN_SECONDS = 3.0  # between two attempts
_PREFIX = "mcvrp-ray-"  # of our nodes' folders; short, because of `require_short`
_SOCKET = "/session_2026-01-31_23-59-59_999999_4194304/sockets/plasma_store"  # Ray's longest path in a folder
_MOST_BYTES = 107  # of the path of a socket
_READY = "Ray runtime started"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_JOIN_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",  # off, Ray joins nothing on Linux either
    "RAY_raylet_start_wait_time_s": f"{JOIN_SECONDS:.0f}",  # Ray's own 30 s are short on a busy machine
}
_RAY_COMMAND = [sys.executable, "-P", "-m", "ray.scripts.scripts"]
_MESSAGE_LENGTH = 150  # characters of Ray's output in an error message
_STORE_BYTES = 100 * 2**20  # a driver puts a city there and takes receipts


@dataclass(frozen=True)
class RayNode:
    """A node on this machine: the ``folder`` by which `ray.init` finds it, and whether it is ``alive``."""

    folder: str
    alive: Callable[[], bool]


def join_cluster(
    address: str,
    stack: contextlib.ExitStack,
    *,
    shared_bytes: int,
    options: Mapping[str, Any],
) -> RayNode | None:
    """Connect this process to the cluster at ``address`` as a driver; ``stack`` disconnects it.

    Returns the node through which it is connected, None for a Ray client (``ray://``), which needs none.
    ``options`` are those of `ray.init`, ``shared_bytes`` is the size of the objects that the driver will
    share. McvrpError if the cluster does not answer, or rejects this process, or the path of the temporary
    folder is too long.
    """
    if not address.startswith("ray://") and _existing_node(address) is None:
        require_short(f"{tempfile.gettempdir()}/{_PREFIX}12345678", "TMPDIR")
    began, patience = time.monotonic(), 0.0
    while True:
        try:
            with contextlib.ExitStack() as attempt:
                require_answer(address)
                patience = _HEAD_SECONDS
                node = _connect(address, attempt, shared_bytes, options)
                stack.push(attempt.pop_all())
                return node
        except McvrpError:
            if time.monotonic() - began > patience:
                raise
        time.sleep(_REJOIN_SECONDS)


def require_short(folder: str, variable: str) -> None:
    """Raise McvrpError if Ray's sockets in ``folder``, below that of ``variable``, have too long paths."""
    if (excess := len(os.fsencode(folder + _SOCKET)) - _MOST_BYTES) > 0:
        own = os.environ.get(variable, "")
        most = len(os.fsencode(own)) - excess
        raise McvrpError(
            f"{variable}={brief(own, 100)} is too long for the paths of Ray's sockets: set it to a path of "
            f"at most {most} characters, such as /tmp"
        )


def _connect(
    address: str, stack: contextlib.ExitStack, shared_bytes: int, options: Mapping[str, Any]
) -> RayNode | None:
    try:
        node, folder = None, {}
        if not address.startswith("ray://"):
            node = stack.enter_context(ray_node(address, shared_bytes=shared_bytes))
            folder = {"_temp_dir": node.folder}
        stack.callback(ray.shutdown)  # a driver disconnects before its node leaves
        ray.init(address=address, **folder, **options)
        return node
    except Exception as error:  # Ray raises whatever its client library raises
        raise _unreachable(address, reason(error)) from error


def require_answer(address: str) -> None:
    """Raise McvrpError unless the cluster at ``address`` answers and, if it is not ``ray://``, is healthy.

    `ray.init` alone would retry for minutes.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            raise _unreachable(address) from error
        if not address.startswith("ray://") and (message := _health_error(address)) is not None:
            raise _unreachable(address, message)


def _health_error(address: str) -> str | None:
    """Return the error message of Ray's health check at ``address``; None if it is healthy."""
    command = [*_RAY_COMMAND, "health-check", "--skip-version-check", "--address", address]
    try:
        check = subprocess.run(command, capture_output=True, text=True, timeout=_HEALTH_SECONDS)
    except subprocess.TimeoutExpired:
        return ""
    return None if check.returncode == 0 else _last_line(check.stderr)


def _unreachable(address: str, message: str = "") -> McvrpError:
    details = f" ({message})" if message else ""
    return McvrpError(
        f"no Ray cluster answers at RAY_ADDRESS={address}{details}: start it, or unset RAY_ADDRESS to use "
        "this machine"
    )


@contextlib.contextmanager
def ray_node(address: str, *, shared_bytes: int = 0) -> Iterator[RayNode]:
    """Hold a node of the cluster at ``address`` (host:port).

    A node that another process has started on this machine is used as it is, and keeps running. A node that
    we start serves a single driver and ends with it; RuntimeError with Ray's own message if it is rejected.
    """
    if existing := _existing_node(address):
        yield existing
        return
    with scratch_folder("ray") as folder:
        command = [
            *_RAY_COMMAND,
            *("start", f"--address={address}", "--block", "--num-cpus=0", "--num-gpus=0"),
            *("--disable-usage-stats", f"--temp-dir={folder}"),
            f"--object-store-memory={_STORE_BYTES + 2 * shared_bytes}",
        ]
        output = Path(folder, "output")
        with output.open("w") as log:
            environment = os.environ | _JOIN_ENVIRONMENT
            process = start_group(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(process, output)
            yield RayNode(folder, lambda: process.poll() is None)
        finally:
            stop_group(process)


def _wait(process: subprocess.Popen[str], output: Path) -> None:
    deadline = time.monotonic() + JOIN_SECONDS
    while _READY not in (text := output.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(_last_line(text) or f"no answer in {JOIN_SECONDS:.0f} s")
        time.sleep(0.1)


def _last_line(output: str) -> str:
    """Return the last line of Ray's ``output``, without colours and shortened; "" if there is none."""
    lines = [line.strip() for line in _COLOURS.sub("", output).splitlines()]
    line = next((line for line in reversed(lines) if line.strip("-")), "")
    return textwrap.shorten(line, _MESSAGE_LENGTH, placeholder=" …")


def _existing_node(address: str) -> RayNode | None:
    """Return a node of the cluster on this machine that does not belong to another driver."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "raylet":
            arguments = dict(part.partition("=")[::2] for part in process.info["cmdline"] or ())
            folder = arguments.get("--temp_dir", "")
            if Path(folder).name.startswith(_PREFIX):
                continue
            if _is_same(arguments.get("--gcs-address", ""), address):
                return RayNode(folder, process.is_running)
    return None


def _is_same(one: str, other: str) -> bool:
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    if port != other_port:
        return False
    with contextlib.suppress(OSError):
        return socket.gethostbyname(host) == socket.gethostbyname(other_host)
    return False
