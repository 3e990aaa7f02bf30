"""Checks of the stack's secrets and of the engine's disk before images are built.

    python3 docker/preflight.py [--secrets docker/.env]

Exits with 2 after a sentence on stderr. A missing or stopped engine, a missing secret or a port in use is
rejected by compose itself. DOCKER names the engine's program, FREE_GB the space to require.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

IMAGE = "mcvrp:0.1.0"
# The packages (1.8 GB, and 3.5 GB for CUDA) as a layer of the build and again in the image, and the bases.
BUILDING_GB, RUNNING_GB = 12.0, 4.0  # the store accepts no writes with less than 2.5 GB free
_URL_SAFE = re.compile(r"[A-Za-z0-9._~-]*")  # also in JSON, and in compose's file of variables
_ANSWER_SECONDS = 60


def main(arguments: list[str] | None = None) -> int:
    """Run all checks; return the exit code."""
    parser = argparse.ArgumentParser(prog="docker/preflight.py")
    parser.add_argument("--secrets", type=Path, help="file of secrets")
    options = parser.parse_args(arguments)
    error = (secrets_error(options.secrets) if options.secrets else "") or disk_error()
    if error:
        sys.stderr.write(f"{error}\n")
    return 2 if error else 0


def secrets_error(path: Path) -> str:
    """Return what is wrong with the file of secrets at ``path``; "" if nothing is."""
    try:
        mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"{path} cannot be read ({error}): remove it and `make up` writes a new one"
    if mode & 0o077:
        return f"{path} can be read by others (mode {mode:03o}): run chmod 600 {path}"
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if not line.startswith("#") and not _URL_SAFE.fullmatch(value.strip()):
            return (
                f"{name.strip()} in {path} has characters other than letters, digits and . _ ~ -, which are "
                "invalid in the URLs that contain it: choose another value"
            )
    return ""


def disk_error() -> str:
    """Return what is wrong with the disk of the engine; "" if nothing is, or if it cannot be checked."""
    context = _ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    if re.match(r"(tcp|ssh|https?)://", context):
        return ""
    folder = _ask("info", "--format", "{{.DockerRootDir}}")
    try:
        free = shutil.disk_usage(folder).free / 1e9
    except OSError:  # no engine, or one in a virtual machine
        return ""
    limit = os.environ.get("FREE_GB") or ""
    try:
        built = _ask("image", "inspect", "--format", "{{.Id}}", IMAGE)
        needed = float(limit or (RUNNING_GB if built else BUILDING_GB))
    except ValueError:
        return f"FREE_GB={limit} is not a number of gigabytes: use FREE_GB=4, for example"
    if free < needed:
        return (
            f"{folder}, which holds the engine's images and volumes, has {free:.1f} GB free of the "
            f"{needed:g} GB needed: free some space, or set FREE_GB to another limit"
        )
    return ""


def _ask(*arguments: str) -> str:
    """Return the output of the engine's program; "" if it fails."""
    command = [*shlex.split(os.environ.get("DOCKER") or "docker"), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
