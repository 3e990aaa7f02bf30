"""A node of no cores in a Ray cluster, held while a driver works: Ray lets only a node's host drive."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from mcvrp.tasks.support.processes import start_group, stop_group
from mcvrp.tasks.support.scratch import scratch_folder

JOIN_SECONDS = 120.0  # measured 6 s on two idle cores, 25 s on busy ones
_PREFIX = "mcvrp-ray-"  # of a node of ours; short: sockets lie below it, of 107 characters at most
_READY = "Ray runtime started"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_JOINS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",  # off, Ray joins nothing on Linux either
    "RAY_raylet_start_wait_time_s": f"{JOIN_SECONDS:.0f}",  # Ray's own 30 s are short on a busy machine
}
_WORDS = 150  # characters of Ray's in a sentence of ours
_STORE_BYTES = 100 * 2**20  # a driver puts a city there and takes receipts


class NotJoined(Exception):
    """Ray did not let a node in; the message is Ray's own."""


@dataclass(frozen=True)
class RayNode:
    """A node on this machine: the ``folder`` by which `ray.init` finds it, and whether it ``lives``."""

    folder: str
    lives: Callable[[], bool]


@contextlib.contextmanager
def ray_node(address: str, *, shared_bytes: int = 0) -> Iterator[RayNode]:
    """Hold a node of the cluster at ``address`` (host:port).

    A node that somebody else has started on this machine serves as well, and stays; a node of ours is for one
    driver, as it leaves with it.

    Parameters
    ----------
    shared_bytes
        Size of what the driver will share.

    Raises
    ------
    NotJoined
        If the cluster does not take the node.
    """
    if there := _node_here(address):
        yield there
        return
    with scratch_folder("ray") as folder:
        command = [
            sys.executable,
            "-P",
            "-m",
            "ray.scripts.scripts",
            "start",
            f"--address={address}",
            "--block",
        ]
        command += ["--num-cpus=0", "--num-gpus=0", "--disable-usage-stats", f"--temp-dir={folder}"]
        command += [f"--object-store-memory={_STORE_BYTES + 2 * shared_bytes}"]
        words = Path(folder, "words")
        with words.open("w") as log:
            environment = os.environ | _JOINS
            process = start_group(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(process, words)
            yield RayNode(folder, lambda: process.poll() is None)
        finally:
            stop_group(process)


def last_line(said: str) -> str:
    """Return the last line of what Ray ``said``, plain and not too long; "" where there is none."""
    lines = [line.strip() for line in _COLOURS.sub("", said).splitlines()]
    line = next((line for line in reversed(lines) if line.strip("-")), "")
    return textwrap.shorten(line, _WORDS, placeholder=" …")


def _wait(process: subprocess.Popen[str], words: Path) -> None:
    deadline = time.monotonic() + JOIN_SECONDS
    while _READY not in (said := words.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotJoined(last_line(said) or f"no word in {JOIN_SECONDS:.0f} s")
        time.sleep(0.1)


def _node_here(address: str) -> RayNode | None:
    """Return a node of the cluster on this machine that is no other driver's own."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "raylet":
            said = dict(part.partition("=")[::2] for part in process.info["cmdline"] or ())
            folder = said.get("--temp_dir", "")
            if _same(said.get("--gcs-address", ""), address) and not Path(folder).name.startswith(_PREFIX):
                return RayNode(folder, process.is_running)
    return None


def _same(one: str, other: str) -> bool:
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    if port != other_port:
        return False
    with contextlib.suppress(OSError):
        return socket.gethostbyname(host) == socket.gethostbyname(other_host)
    return False
