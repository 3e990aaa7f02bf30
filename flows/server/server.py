"""A Prefect server for one command: the one that is configured, else one of our own that leaves with us.

Prefect's own way without a server (the "ephemeral" one) loses most of the task runs of a busy
process. A real server keeps them; ours writes to the same database as `prefect server start`
would, so the history stays. Ours asks for a password: other users of the machine reach its port, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
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
from typing import IO, Any
from urllib.parse import urlsplit

import asyncpg
import prefect
from prefect.client.orchestration import get_client
from prefect.events.worker import EventsWorker
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_UI_STATIC_DIRECTORY,
    temporary_settings,
)

from mcvrp.flows.config import settings
from mcvrp.flows.server.outages import Keeper, forget, kept_running
from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.tasks.support.processes import free_port, last_error, start_group, stop_group

logger = logging.getLogger(__name__)

STILL_SECONDS = 60.0  # a first start writes the database; measured 11 s on two idle cores, later ones 4 s
ANSWER_SECONDS = 10.0
STOP_SECONDS = 1.0
_DRAIN_SECONDS = 30.0  # for what a server has still to hear; one of our own, on this machine, hears it in two
_OWN_DRAIN_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_WHY = 120  # characters of what it died of
_DATABASE_SECONDS = 5.0  # for its answer
_DRIVER = "postgresql+asyncpg"
ENTRY = "/enter"  # page of `app`: what stands behind the # of its address stays in the browser
_USER = "mcvrp"  # any would do: Prefect compares user and password as one

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
    """Prefect server that has the records of a run.

    Parameters
    ----------
    url
        Of its API.
    password
        Of our own server, "user:password" as Prefect has it; None where the server is another's.
    made_up
        True where nobody but us knows the password yet.
    """

    url: str
    password: str | None = field(default=None, repr=False)
    made_up: bool = False

    @property
    def ours(self) -> bool:
        """True where the server is our own to start."""
        return self.password is not None

    @property
    def page(self) -> str:
        """The address of its pages."""
        return self.url.removesuffix("/api")

    @property
    def link(self) -> str:
        """The address to open in a browser: with a password that we have made up, which opens the page."""
        return f"{self.page}{ENTRY}#{self.password}" if self.made_up else self.page

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have Prefect's clients in this context talk to the server."""
        known = {PREFECT_API_AUTH_STRING: self.password} if self.ours else {}
        with temporary_settings({PREFECT_API_URL: self.url} | known):
            yield


@contextmanager
def prefect_server() -> Iterator[Server]:
    """Give Prefect a server for as long as the context lasts.

    Raises
    ------
    McvrpError
        If the configured server does not answer, or our own does not start.
    """
    forget()
    if there := configured_server():
        with draining():
            yield there
        return
    with tempfile.TemporaryFile("w+") as log:
        server = server_at(free_port())
        logger.info("starting a Prefect server (4 s, the first time 15 s)")
        off = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES_OFF}
        with (
            server.in_use(),
            kept_running(server_keeper(server, log, off)),
            draining(_OWN_DRAIN_SECONDS),
        ):
            yield server


def configured_server() -> Server | None:
    """Return the server that PREFECT_API_URL names, None where it names none.

    Raises
    ------
    McvrpError
        If it does not answer, or not to us.
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
    return running_server(url)


def running_server(url: str) -> Server:
    """Return the server of somebody else whose API is at ``url``.

    Raises
    ------
    McvrpError
        If it asks for a password that we do not have.
    """
    server = Server(url)
    with server.in_use(), get_client(sync_client=True) as client:
        try:
            client.api_version()
        except PrefectHTTPStatusError as error:
            if error.response.status_code == HTTPStatus.UNAUTHORIZED:
                raise McvrpError(
                    f"the Prefect server at {url} asks for a password: set PREFECT_API_AUTH_STRING to "
                    "user:password (of `mcvrp ui`: what stands behind the # of the link that it printed)"
                ) from None
            raise McvrpError(
                f"the Prefect server at {url} is not well ({reason(error)}): look at its log"
            ) from None
    return server


def server_at(port: int) -> Server:
    """Return our own server on ``port`` of this machine; it need not run.

    Its password is the one that Prefect's settings give to a server, else a new one.
    """
    url, known = f"http://127.0.0.1:{port}/api", PREFECT_SERVER_API_AUTH_STRING.value()
    return Server(url, known or f"{_USER}:{secrets.token_urlsafe(24)}", made_up=not known)


def answers(url: str, seconds: float) -> bool:
    """Return whether the API at ``url`` says within ``seconds`` that it is well."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=seconds) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


@contextmanager
def draining(seconds: float = _DRAIN_SECONDS) -> Iterator[None]:
    """At the end of the context, send events and logs for ``seconds``; what the server has not taken is lost.

    Prefect sends them from threads, for which the process waits when it exits: where the server is away,
    as long as there are tries left, a quarter of an hour and more.
    """
    try:
        yield
    finally:
        kinds: tuple[Any, ...] = (EventsWorker, APILogWorker)
        for kind in kinds:
            services = list(kind._instances.values())
            kind.drain_all(timeout=seconds)
            for service in services:
                service._loop.call_soon_threadsafe(service._done_event.set)


def server_keeper(server: Server, log: IO[str], changes: Mapping[str, str]) -> Keeper:
    """Return the keeper of ``server``, started with ``changes`` to its environment, its output in ``log``.

    Entered, it raises McvrpError with what the server died of where that does not start; as long as it
    lives it is waited for.
    """
    start, stop = partial(_launch, server, log, changes), partial(stop_group, grace=STOP_SECONDS)
    return Keeper("Prefect server", log, start, stop, partial(_wait_for, server, log))


def _launch(server: Server, log: IO[str], changes: Mapping[str, str]) -> subprocess.Popen[str]:
    # The program that `prefect server start` runs, without the launcher in between: a child of
    # ours dies with us even when we are killed, a grandchild does not.
    command = [sys.executable, "-m", "uvicorn", "--factory", "mcvrp.flows.server.app:create_app"]
    port, password = server.page.rpartition(":")[2], server.password or ""
    command += ["--host", "127.0.0.1", "--port", port, "--log-level", "error", "--lifespan", "on"]
    environment = settings.child_environment(
        PREFECT_SERVER_API_HOST="127.0.0.1",
        PREFECT_SERVER_API_PORT=port,  # the pages of the UI call this port, 4200 without it
        PREFECT_SERVER_API_AUTH_STRING=password,
        PREFECT_API_AUTH_STRING=password,  # its own services ask it, too
        # No page of anybody else's gets an answer, whatever it asks.
        PREFECT_SERVER_CORS_ALLOWED_ORIGINS=f"{server.page},http://localhost:{port}",
        **_pages_folder(Path(prefect.__ui_static_subpath__).parent),
        **settings.retention(),
        PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL="ERROR",  # else nobody would know why it did not start
        **changes,
    )
    # umask: its database is readable by its owner alone
    return start_group(command, env=environment, stdout=log, stderr=log, umask=0o077)


def _pages_folder(of_prefect: Path) -> dict[str, str]:
    """Return what has a server unpack its pages where it may write, if not in ``of_prefect``, as it would.

    Without them it says 404. Nothing where it may, where Prefect is told already, or where it may nowhere.
    """
    if PREFECT_UI_STATIC_DIRECTORY.value() or os.access(of_prefect, os.W_OK):
        return {}
    for folder in (PREFECT_HOME.value() / "mcvrp-ui", settings.cache_dir() / "prefect-ui"):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return {"PREFECT_UI_STATIC_DIRECTORY": str(folder)}
    return {}


def _wait_for(server: Server, log: IO[str], process: subprocess.Popen[str]) -> None:
    began = told = time.monotonic()
    while not answers(server.url, seconds=2.0):
        if process.poll() is not None:
            log.seek(0)
            why = last_error(log.read()) or f"exit code {process.returncode}"
            raise McvrpError(
                f"the Prefect server did not start ({brief(why, _WHY)}): look at PREFECT_HOME and its "
                "database, or start one with `prefect server start` and set PREFECT_API_URL to its address"
            )
        if (now := time.monotonic()) - told > STILL_SECONDS:
            told = now
            logger.info("the Prefect server is starting since %.0f s (Ctrl-C ends it)", now - began)
        time.sleep(_LOOK_SECONDS)


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
        raise McvrpError(
            "--database is no address: give one such as postgresql://user:password@host:5432/name"
        )
    asyncio.run(_connect(f"postgresql://{place}"))
    whole = f"{_DRIVER}://{place}"
    names = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
    return dict.fromkeys(names, whole)


async def _connect(url: str) -> None:
    try:
        connection = await asyncpg.connect(url, timeout=_DATABASE_SECONDS)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, TimeoutError) as error:
        host = urlsplit(url).hostname or "here"  # never the address: it holds the password
        raise McvrpError(
            f"the database on {host} does not let the server in ({reason(error)}): check --database"
        ) from None
    await connection.close()
