"""A real Postgres for tests, on loopback, in a folder that goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcvrp.tasks.support.processes import free_port, start_group, stop_group
from tests.support.shared import unavailable, until

_SECONDS = 60.0
_USER = "postgres"  # Debian's; Postgres refuses to run as root


def require_programs() -> Path:
    """Return the folder of Postgres' programs: on the PATH, or Debian's; skip without, in CI fail."""
    initdb = shutil.which("initdb")
    if initdb is not None:
        return Path(initdb).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    return versions[-1] if versions else unavailable("no Postgres: apt-get install postgresql")


def as_nobody_special(folder: Path) -> list[str]:
    """Return the prefix of the command of a Postgres in ``folder``: it refuses to run as root."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(_USER)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", "--pdeathsig=KILL"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    programs = require_programs()
    folder = Path(tempfile.mkdtemp(prefix="mcvrp-postgres-"))
    become = as_nobody_special(folder)
    data, password = folder / "data", folder / "password"
    password.write_text("secret")
    password.chmod(0o644)
    initdb = [str(programs / "initdb"), "-D", str(data), "--username=prefect", f"--pwfile={password}"]
    subprocess.run(
        [*become, *initdb, "--auth=scram-sha-256", "--encoding=UTF8", "--no-sync"],
        check=True,
        capture_output=True,
        cwd="/",
    )
    port = free_port()
    command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1"]
    with (folder / "log").open("w") as log:
        server = start_group(
            [*become, *command, "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"],
            cwd="/",
            stdout=log,
            stderr=log,
        )
    try:
        ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]

        def serves() -> bool:
            assert server.poll() is None, (folder / "log").read_text()
            return not subprocess.run(ready).returncode

        until("Postgres", _SECONDS, serves, 0.1)
        yield f"postgresql://prefect:secret@127.0.0.1:{port}/postgres"
    finally:
        stop_group(server)
        shutil.rmtree(folder, ignore_errors=True)
