"""Prefect server of a command: the configured one, otherwise one that is started for the command.

Prefect's ephemeral server, its own way to run flows without a server, loses most task runs of a busy process.
The server started here writes to the database of `prefect server start`, so that the history is kept. It
requires a password: other users of the machine can reach its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import asyncpg
import prefect
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_UI_STATIC_DIRECTORY,
    temporary_settings,
)

from mcvrp.flows.config import settings
from mcvrp.flows.server.keeper import Keeper, kept_running
from mcvrp.flows.server.prefect_internals import drain
from mcvrp.flows.server.records import Records
from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.tasks.support.processes import free_port, last_error, start_group, stop_group

logger = logging.getLogger(__name__)

STILL_SECONDS = 60.0  # a first start writes the database; measured 11 s on two idle cores, later ones 4 s
ANSWER_SECONDS = 10.0
STOP_SECONDS = 1.0
_DRAIN_SECONDS, _OWN_DRAIN_SECONDS = 30.0, 2.0  # the second for a server on this machine
_LOOK_SECONDS = 0.1
_LONGEST_REASON = 120  # characters
_DATABASE_SECONDS = 5.0
_DRIVER = "postgresql+asyncpg"
ENTRY = "/enter"  # page of `app`; browsers send no server what follows the # of an address
_USER = "mcvrp"  # an arbitrary name: Prefect compares user and password as one string

# A single command needs no schedules, automations or workers; the recorder of task runs stays on.
_SERVICES_OFF = ["CANCELLATION_CLEANUP", "FOREMAN", "LATE_RUNS", "PAUSE_EXPIRATIONS", "SCHEDULER", "TRIGGERS"]


@dataclass(frozen=True)
class Server:
    """Prefect server that records runs, by the address of its API."""

    url: str
    password: str | None = field(default=None, repr=False)  # "user:password" if this process starts it
    generated: bool = False  # here, so that the user has to be shown the password

    @property
    def ours(self) -> bool:
        """True if this process starts the server."""
        return self.password is not None

    @property
    def page(self) -> str:
        """Address of the UI."""
        return self.url.removesuffix("/api")

    @property
    def link(self) -> str:
        """Address to open in a browser, which logs in with a generated password."""
        return f"{self.page}{ENTRY}#{self.password}" if self.generated else self.page

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have Prefect's clients in this context use the server."""
        password = {PREFECT_API_AUTH_STRING: self.password} if self.ours else {}
        with temporary_settings({PREFECT_API_URL: self.url} | password):
            yield


@contextmanager
def prefect_server(records: Records | None = None) -> Iterator[Server]:
    """Yield the Prefect server of a command; note outages of one that is started for it in ``records``.

    McvrpError if the configured server does not answer, or a new one does not start.
    """
    if server := configured_server():
        with draining():
            yield server
        return
    server = server_at(free_port())
    with tempfile.TemporaryFile("w+") as log:
        logger.info("starting a Prefect server (4 s, the first time 15 s)")
        off = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES_OFF}
        keeper = server_keeper(server, log, off)
        with server.in_use(), kept_running(keeper, records or Records()), draining(_OWN_DRAIN_SECONDS):
            yield server


@contextmanager
def draining(seconds: float = _DRAIN_SECONDS) -> Iterator[None]:
    """At the end of the context, send queued events and logs for ``seconds`` and drop the rest."""
    try:
        yield
    finally:
        drain(seconds)


def configured_server() -> Server | None:
    """Return the server at PREFECT_API_URL, None if that is not set; McvrpError if it does not answer."""
    configured = PREFECT_API_URL.value()
    if not configured:
        return None
    url = str(configured).rstrip("/")
    if not answers(url, ANSWER_SECONDS):
        raise McvrpError(
            f"no Prefect server answers at {url}: start it, or unset PREFECT_API_URL "
            "(also in the Prefect profile) to have one started for the run"
        )
    return running_server(url)


def running_server(url: str) -> Server:
    """Return the server that runs already at ``url``; McvrpError if it refuses the password or fails."""
    server = Server(url)
    with server.in_use(), get_client(sync_client=True) as client:
        try:
            client.api_version()
        except PrefectHTTPStatusError as error:
            if error.response.status_code == HTTPStatus.UNAUTHORIZED:
                raise McvrpError(
                    f"the Prefect server at {url} asks for a password: set PREFECT_API_AUTH_STRING to "
                    "user:password (for `mcvrp ui`: what follows the # of the link that it printed)"
                ) from None
            raise McvrpError(
                f"the Prefect server at {url} answers with an error ({reason(error)}): look at its log"
            ) from None
    return server


def server_at(port: int) -> Server:
    """Return a server on ``port`` of this machine that is still to be started.

    Its password is that of Prefect's settings for a server, by default a random one.
    """
    url, configured = f"http://127.0.0.1:{port}/api", PREFECT_SERVER_API_AUTH_STRING.value()
    return Server(url, configured or f"{_USER}:{secrets.token_urlsafe(24)}", generated=not configured)


def answers(url: str, seconds: float) -> bool:
    """Return whether the API at ``url`` reports within ``seconds`` that it is healthy."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=seconds) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


def server_keeper(server: Server, log: IO[str], changes: Mapping[str, str]) -> Keeper:
    """Return the keeper of ``server``, started with ``changes`` to its environment, its output in ``log``.

    Entering it waits for the server for as long as its process lives; if that ends, it raises McvrpError with
    the reason.
    """
    start, stop = partial(_launch, server, log, changes), partial(stop_group, grace=STOP_SECONDS)
    return Keeper("Prefect server", log, start, stop, partial(_wait_for, server, log))


def _launch(server: Server, log: IO[str], changes: Mapping[str, str]) -> subprocess.Popen[str]:
    # The program that `prefect server start` runs, without the launcher in between: the kernel kills a child
    # with its parent, and no grandchild.
    command = [sys.executable, "-m", "uvicorn", "--factory", "mcvrp.flows.server.app:create_app"]
    port, password = server.page.rpartition(":")[2], server.password or ""
    command += ["--host", "127.0.0.1", "--port", port, "--log-level", "error", "--lifespan", "on"]
    environment = {
        **os.environ,
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": port,  # the pages of the UI call this port, 4200 without it
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_API_AUTH_STRING": password,  # its own services are clients of it
        # Prefect's default allows the pages of any site to send requests.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{server.page},http://localhost:{port}",
        **_pages_folder(Path(prefect.__file__).with_name("server")),
        **settings.retention(),
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR",  # `_wait_for` reads from it why it did not start
        **changes,
    }
    # umask: its database contains parameters and logs of all runs
    return start_group(command, env=environment, stdout=log, stderr=log, umask=0o077)


def _pages_folder(of_prefect: Path) -> dict[str, str]:
    # A server unpacks the pages of the UI when it starts; without them the UI answers 404.
    if PREFECT_UI_STATIC_DIRECTORY.value() or os.access(of_prefect, os.W_OK):
        return {}
    for folder in (PREFECT_HOME.value() / "mcvrp-ui", settings.cache_dir() / "prefect-ui"):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return {"PREFECT_UI_STATIC_DIRECTORY": str(folder)}
    return {}


def _wait_for(server: Server, log: IO[str], process: subprocess.Popen[str]) -> None:
    began = reported = time.monotonic()
    while not answers(server.url, seconds=2.0):
        if process.poll() is not None:
            log.seek(0)
            cause = last_error(log.read()) or f"exit code {process.returncode}"
            raise McvrpError(
                f"the Prefect server did not start ({brief(cause, _LONGEST_REASON)}): look at PREFECT_HOME "
                "and its database, or start one with `prefect server start` and set PREFECT_API_URL"
            )
        if (now := time.monotonic()) - reported > STILL_SECONDS:
            reported = now
            logger.info("the Prefect server has been starting for %.0f s (Ctrl-C stops it)", now - began)
        time.sleep(_LOOK_SECONDS)


def database_environment(url: str | None) -> dict[str, str]:
    """Return the settings of a server that uses the database at ``url``, with or without "+asyncpg".

    None need be set for None. McvrpError if it is no address, or the database refuses the connection.
    """
    if url is None:
        return {}
    scheme, _, address = url.partition("://")
    try:
        valid = scheme in (_DRIVER, "postgresql", "postgres") and urlsplit(url).path.strip("/")
    except ValueError:  # brackets that hold no IPv6 address
        valid = False
    if not valid:
        raise McvrpError(
            "--database is not the address of a database: give postgresql://user:password@host:5432/name"
        )
    # libpq, asyncpg and hosted databases call it sslmode, SQLAlchemy passes asyncpg's argument ssl
    asyncio.run(_connect("postgresql://" + re.sub("(?<=[?&])ssl=", "sslmode=", address)))
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    return dict.fromkeys(names, f"{_DRIVER}://" + re.sub("(?<=[?&])sslmode=", "ssl=", address))


async def _connect(url: str) -> None:
    try:
        connection = await asyncpg.connect(url, timeout=_DATABASE_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError) as error:
        host = urlsplit(url).hostname or "this machine"  # not the address, which contains the password
        raise McvrpError(
            f"the database on {host} refuses the connection ({reason(error)}): check --database"
        ) from None
    await connection.close()
