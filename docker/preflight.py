"""What would keep the stack from coming up, looked for before anything is built or started.

    python3 docker/preflight.py [--secrets docker/.env] [--project mcvrp]

It ends with 2, after one sentence, where the container engine, the room on its disk, a port or the file of
secrets is not as docker/compose.yaml needs it. DOCKER names another program for the engine, MCVRP_HOST the
address on which ports are opened, FREE_GB the room to ask for. It needs no package but Python's own.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

COMPOSE_FILE = Path(__file__).parent / "compose.yaml"
ENGINE, COMPOSE = (20, 10), (2, 17)  # the first compose that knows `up --wait-timeout`
IMAGE = "mcvrp:0.1.0"
# The packages (1.8 GB, and 3.5 GB for CUDA) as a layer of the build and again in the image, and the bases.
BUILDING_GB, RUNNING_GB = 12.0, 4.0  # the store writes nothing where less than 2.5 GB are left for it
_HARMLESS = re.compile(r"[A-Za-z0-9._~-]+")  # in an address, in JSON, and in compose's file of variables
_ANSWER_SECONDS = 60
_SAID = 120  # characters of the engine's own words
_ANEW = "or remove it and `make up` writes a new one"


class Refused(Exception):
    """The sentence that says what is wrong, and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at everything; return the exit code."""
    parser = argparse.ArgumentParser(prog="docker/preflight.py")
    parser.add_argument("--secrets", type=Path, help="the file of secrets")
    parser.add_argument("--project", default="mcvrp", help="whose own ports are not taken")
    options = parser.parse_args(arguments)
    text = COMPOSE_FILE.read_text(encoding="utf-8")
    try:
        if options.secrets:
            check_secrets(options.secrets, re.findall(r"\$\{(\w+):\?", text))
        engine = Engine(shlex.split(os.environ.get("DOCKER") or "docker"))
        engine.check()
        if engine.is_here():
            check_room(engine)
            ports = [int(port) for port in re.findall(r"\$\{MCVRP_HOST:-[\d.]+\}:(\d+):", text)]
            check_ports(os.environ.get("MCVRP_HOST") or "127.0.0.1", ports, engine.own_ports(options.project))
    except Refused as refused:
        sys.stderr.write(f"{refused}\n")
        return 2
    return 0


def check_secrets(path: Path, names: Sequence[str]) -> None:
    """Refuse a file of secrets that others may read, that lacks one of ``names``, or has one that breaks."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Refused(f"{path} cannot be read ({why}): make it yours, {_ANEW}") from error
    if mode & 0o077:
        said = f"{stat.S_IMODE(mode):03o}"
        raise Refused(f"{path} may be read by others (its mode is {said}): chmod 600 {path}")
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    found = {name.strip(): value.strip() for name, _, value in lines}
    for name in names:
        if not found.get(name):
            raise Refused(f"{path} has no {name}: add it, {_ANEW}")
        if not _HARMLESS.fullmatch(found[name]):
            raise Refused(
                f"{name} in {path} has other characters than letters, digits and . _ ~ -, which would not "
                "survive in the addresses that it becomes part of: choose another"
            )


class Engine:
    """The container engine, asked by its program."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Return what it answers."""
        name = " ".join(self.command)
        command = [*self.command, *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS)
        except OSError as error:
            raise Refused(
                f"there is no container engine ({name}: {error.strerror}): install Docker {_number(ENGINE)} "
                f"or newer with compose {_number(COMPOSE)} or newer, or name yours with DOCKER=..."
            ) from error
        except subprocess.TimeoutExpired as error:
            raise Refused(
                f"the container engine does not answer ({name}, {_ANSWER_SECONDS} s): start it again"
            ) from error

    def check(self) -> None:
        """Refuse an engine that does not run, is not ours to use, or is too old; and its compose likewise."""
        asked = self.ask("version", "--format", "{{.Server.Version}}")
        if "permission denied" in asked.stderr.lower():
            raise Refused(
                "the container engine does not let you in: become a member of its group (docker), or say "
                "DOCKER='sudo docker'"
            )
        if asked.returncode:
            raise Refused(f"the container engine does not run ({_last_line(asked.stderr)}): start it")
        _require("the container engine", asked.stdout, ENGINE)
        asked = self.ask("compose", "version", "--short")
        if asked.returncode:
            least = _number(COMPOSE)
            raise Refused(f"the engine has no `docker compose`: install its plugin, {least} or newer")
        _require("docker compose", asked.stdout, COMPOSE)

    def is_here(self) -> bool:
        """True unless it is known to run on another machine, whose ports and disk are not seen from here."""
        asked = self.ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
        return not re.match(r"(tcp|ssh|https?)://", asked.stdout.strip())

    def folder(self) -> str:
        """Return where it keeps images and volumes."""
        return self.ask("info", "--format", "{{.DockerRootDir}}").stdout.strip()

    def is_built(self) -> bool:
        """True where there is an image of the program."""
        return self.ask("image", "inspect", "--format", "{{.Id}}", IMAGE).returncode == 0

    def own_ports(self, project: str) -> set[int]:
        """Return the ports that containers of ``project`` have opened."""
        label = f"label=com.docker.compose.project={project}"
        asked = self.ask("ps", "--filter", label, "--format", "{{.Ports}}")
        return {int(port) for port in re.findall(r":(\d+)->", asked.stdout)}


def check_room(engine: Engine) -> None:
    """Refuse a disk of the engine that has no room for what is going to be built."""
    needed = _asked_gb() or (RUNNING_GB if engine.is_built() else BUILDING_GB)
    folder = engine.folder()
    try:
        disk = os.statvfs(folder)
    except OSError:  # of a virtual machine, say
        return
    free = disk.f_bavail * disk.f_frsize / 1e9
    if free < needed:
        raise Refused(
            f"{folder}, where the container engine keeps images and volumes, has {free:.1f} GB left of the "
            f"{needed:g} GB needed: make room, or say FREE_GB=... if you know better"
        )


def check_ports(host: str, ports: Sequence[int], own: Collection[int]) -> None:
    """Refuse an address that is not this machine's, and a port on which another program listens."""
    for port in ports:
        if port in own:
            continue
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            socket.create_server((host, port), family=family).close()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise Refused(
                    f"MCVRP_HOST={host} is no address of this machine: give one that `ip address` lists"
                ) from error
            raise Refused(
                f"port {port} of {host} is taken by another program (`ss -ltnp` shows which): end it, or "
                "give the stack another address of this machine, as MCVRP_HOST=127.0.0.2"
            ) from error


def _require(what: str, said: str, least: tuple[int, int]) -> None:
    version = re.match(r"\s*v?(\d+)\.(\d+)", said)
    if version and (int(version[1]), int(version[2])) < least:
        raise Refused(f"{what} is {said.strip()}, too old: install {_number(least)} or newer")


def _asked_gb() -> float:
    text = os.environ.get("FREE_GB") or "0"
    try:
        return float(text)
    except ValueError as error:
        raise Refused(f"FREE_GB={text} is no number of gigabytes: write FREE_GB=4, say") from error


def _number(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _last_line(said: str) -> str:
    lines = said.strip().splitlines() or ["it says nothing"]
    return lines[-1][:_SAID]


if __name__ == "__main__":
    sys.exit(main())
