"""A Prefect server for one command: the one that is configured, else one of our own that leaves with us.

Prefect's own way without a server (the "ephemeral" one) loses most of the task runs of a busy
process. A real server keeps them; ours writes to the same database as `prefect server start`
would, so the history stays.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO
from urllib.parse import urlsplit

import asyncpg
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from mcvrp.flows.config import settings
from mcvrp.model.errors import McvrpError, reason
from mcvrp.tasks.support.processes import free_port, start_group, stop_group

logger = logging.getLogger(__name__)

START_SECONDS = 120.0  # a first start writes the database; measured 11 s on two idle cores, later ones 4 s
ANSWER_SECONDS = 10.0
STOP_SECONDS = 1.0
DRAIN_SECONDS = 2.0
_DATABASE_SECONDS = 5.0  # for its answer
_DRIVER = "postgresql+asyncpg"

# What one run never needs: schedules, automations, workers. The recorder of task runs stays on.
_SERVICES_OFF = (
    "CANCELLATION_CLEANUP",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "SCHEDULER",
    "TRIGGERS",
)


@dataclass(frozen=True)
class Server:
    """Prefect server that has the records of a run: ``url`` of its API, and whether it is our own."""

    url: str
    ours: bool

    @property
    def page(self) -> str:
        """The address to open in a browser."""
        return self.url.removesuffix("/api")


@contextmanager
def prefect_server() -> Iterator[Server]:
    """Give Prefect a server for as long as the context lasts.

    Raises
    ------
    McvrpError
        If the configured server does not answer, or our own does not start.
    """
    if there := configured_server():
        yield there
        return
    with tempfile.TemporaryFile("w+") as log:
        server = server_at(free_port())
        logger.info("starting a Prefect server (4 s, the first time 15 s)")
        off = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES_OFF}
        process = start_server(server, log, off)
        try:
            with temporary_settings({PREFECT_API_URL: server.url}):
                try:
                    yield server
                finally:
                    _drain()
        finally:
            stop_group(process, grace=STOP_SECONDS)


def configured_server() -> Server | None:
    """Return the server that PREFECT_API_URL names, None where it names none.

    Raises
    ------
    McvrpError
        If it does not answer.
    """
    configured = PREFECT_API_URL.value()
    if not configured:
        return None
    url = str(configured).rstrip("/")
    if not answers(url, ANSWER_SECONDS):
        raise McvrpError(
            f"no Prefect server answers at {url}: start it, or unset PREFECT_API_URL "
            "(also in the Prefect profile) to have one started for the run"
        )
    return Server(url, ours=False)


def server_at(port: int) -> Server:
    """Return our own server on ``port`` of this machine; it need not run."""
    return Server(f"http://127.0.0.1:{port}/api", ours=True)


def answers(url: str, seconds: float) -> bool:
    """Return whether the API at ``url`` says within ``seconds`` that it is well."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=seconds) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


def _drain() -> None:
    # Prefect sends events and logs from threads that, at exit, would look for our server for a minute.
    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=DRAIN_SECONDS)


def start_server(server: Server, log: IO[str], changes: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start ``server`` with ``changes`` to its environment, its output in ``log``; return when it answers.

    Raises
    ------
    McvrpError
        With the last line of ``log``, if it does not start.
    """
    # The program that `prefect server start` runs, without the launcher in between: a child of
    # ours dies with us even when we are killed, a grandchild does not.
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    port = server.page.rpartition(":")[2]
    command += ["--host", "127.0.0.1", "--port", port, "--log-level", "error", "--lifespan", "on"]
    environment = settings.child_environment(
        PREFECT_SERVER_API_HOST="127.0.0.1",
        PREFECT_SERVER_API_PORT=port,  # the pages of the UI call this port, 4200 without it
        **changes,
    )
    process = start_group(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_for(server, process, log)
    except BaseException:  # Ctrl-C among them: nobody else knows of the process yet
        stop_group(process, grace=STOP_SECONDS)
        raise
    return process


def _wait_for(server: Server, process: subprocess.Popen[str], log: IO[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(server.url, seconds=2.0):
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            lines = log.read().strip().splitlines()
            raise McvrpError(
                "the Prefect server did not start"
                + (f" ({lines[-1].strip()})" if lines else "")
                + ": start one with `prefect server start` and set PREFECT_API_URL to its address"
            )
        time.sleep(0.1)


def database_environment(url: str | None) -> dict[str, str]:
    """Return what tells a server to use the database at ``url``; nothing for None.

    Parameters
    ----------
    url
        "postgresql://user:password@host:5432/name", with or without "+asyncpg".

    Raises
    ------
    McvrpError
        If it is no such address, or the database does not let us in.
    """
    if url is None:
        return {}
    kind, _, place = url.partition("://")
    if kind not in (_DRIVER, "postgresql", "postgres") or not urlsplit(url).path.strip("/"):
        raise McvrpError("--database takes an address such as postgresql://user:password@host:5432/name")
    asyncio.run(_connect(f"postgresql://{place}"))
    whole = f"{_DRIVER}://{place}"
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    return dict.fromkeys(names, whole)


async def _connect(url: str) -> None:
    try:
        connection = await asyncpg.connect(url, timeout=_DATABASE_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError) as error:
        host = urlsplit(url).hostname or "here"  # never the address: it holds the password
        raise McvrpError(f"the database on {host} does not let the server in: {reason(error)}") from None
    await connection.close()
