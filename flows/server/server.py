"""Prefect server of a command: the one of PREFECT_API_URL, otherwise a child process for the command.

Prefect's ephemeral server, its own way to run flows without a server, loses most task runs of a busy process.
The server that is started here has the database of `prefect server start`, so that the history is kept.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import IO

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    temporary_settings,
)

from mcvrp.model.errors import IncompleteError, McvrpError, reason
from mcvrp.tasks.support.processes import free_port, start_group, stop_group

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0  # a first start writes the database: 11 s on two idle cores, later ones 4 s
STOP_SECONDS = 5.0
_DRAIN_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_ENDED = FlowRunFilter.model_validate({"state": {"type": {"any_": sorted(TERMINAL_STATES)}}})
_OPEN = {"type": {"any_": ["PENDING", "RUNNING"]}}


class NoServer(McvrpError):
    """No Prefect server answers."""


@contextmanager
def prefect_server(*, wanted: bool = True) -> Iterator[None]:
    """Have a Prefect server record the flows that are called in this context.

    If none answers within `ANSWER_SECONDS`, or none is ``wanted``, the flows run unrecorded, which is logged.
    McvrpError if the server of PREFECT_API_URL refuses the password.
    """
    with contextlib.ExitStack() as stack:
        try:
            if not wanted:
                raise NoServer("--no-prefect")
            if PREFECT_API_URL.value():
                configured_server()
            else:
                stack.enter_context(own_server(free_port()))
            stack.enter_context(_draining())
        except NoServer as error:
            logger.warning("Prefect has no record of this run (%s)", error)
            stack.enter_context(temporary_settings(restore_defaults={PREFECT_API_URL}))
        yield


def configured_server() -> str:
    """Return the address of the server at PREFECT_API_URL; NoServer if it does not answer.

    McvrpError if it refuses the password.
    """
    url = str(PREFECT_API_URL.value()).rstrip("/")
    until = time.monotonic() + ANSWER_SECONDS
    while not _answers(url):
        if time.monotonic() > until:
            raise NoServer(f"no server answers at {url}: start it, or unset PREFECT_API_URL")
        time.sleep(_LOOK_SECONDS)
    try:
        with get_client(sync_client=True) as client:
            client.api_version()
    except httpx.HTTPError as error:
        raise refusal_of(error) or error from None
    return url


@contextmanager
def own_server(
    port: int, log: IO[str] | int = subprocess.DEVNULL, *, password: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Run `prefect server start` on ``port`` of this machine, its output in ``log``.

    Prefect's clients in this context use it, with ``password`` ("user:password"; default: that of Prefect's
    settings, otherwise a random one). NoServer if it ends, or does not answer within `ANSWER_SECONDS`.
    """
    url = f"http://127.0.0.1:{port}/api"
    password = password or PREFECT_SERVER_API_AUTH_STRING.value() or new_password()
    logger.info("starting a Prefect server (4 s, the first time 15 s)")
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    environment = {
        "PREFECT_UI_STATIC_DIRECTORY": str(PREFECT_HOME.value() / "mcvrp-ui"),  # Prefect's may be read-only
        # Prefect's default allows the pages of any site to send requests.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://127.0.0.1:{port},http://localhost:{port}",
        # In memory, the slots of runs that were killed together with the server would stay taken.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # of more than 90 days ago
        **os.environ,
        "PREFECT_SERVER_API_PORT": str(port),  # the pages of the UI call this port, 4200 without it
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_API_AUTH_STRING": password,  # its own services are clients of it
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR",  # the reason if it ends
    }
    environment.pop("PREFECT_API_URL", None)
    # umask: its database contains parameters and logs of all runs
    process = start_group(command, env=environment, stdout=log, stderr=log, umask=0o077)
    try:
        _wait_for(url, process)
        with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: password}):
            yield process
    finally:
        stop_group(process, grace=STOP_SECONDS)


def new_password() -> str:
    """Return a random password in Prefect's form."""
    return f"mcvrp:{secrets.token_urlsafe(24)}"


def _wait_for(url: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + ANSWER_SECONDS
    while not _answers(url):
        if process.poll() is None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            continue
        silent = process.returncode is None
        cause = f"no answer in {ANSWER_SECONDS:.0f} s" if silent else f"exit code {process.returncode}"
        raise NoServer(f"`prefect server start` failed ({cause}): run it to see why")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2.0) as response:  # noqa: S310
            return bool(response.status == HTTPStatus.OK)
    except (OSError, ValueError, http.client.HTTPException):  # another program has the port
        return False


@contextmanager
def _draining() -> Iterator[None]:
    """Send at the end what is queued: log lines, and the events of which the server makes task runs."""
    begun = {"state": _OPEN, "start_time": {"after_": datetime.now(UTC)}}
    open_tasks = TaskRunFilter.model_validate(begun)
    try:
        yield
    finally:
        for kind in (EventsWorker, APILogWorker):
            kind.drain_all(timeout=_DRAIN_SECONDS)
        until = time.monotonic() + _DRAIN_SECONDS
        with (
            contextlib.suppress(httpx.HTTPError),
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
            get_client(sync_client=True) as client,
        ):
            tasks = partial(client.read_task_runs, flow_run_filter=_ENDED, task_run_filter=open_tasks)
            while tasks(limit=1) and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)


def refusal_of(error: Exception) -> McvrpError | None:
    """Return the sentence on a request to the Prefect server that has failed; None for any other error."""
    # the check of versions that precedes the first request wraps what it was raised by
    cause = error if isinstance(error, httpx.HTTPError) else error.__cause__
    if not isinstance(cause, httpx.HTTPError):
        return None
    server = f"the Prefect server at {str(PREFECT_API_URL.value()).rstrip('/')}"
    if not isinstance(cause, httpx.HTTPStatusError) or cause.response.is_server_error:
        return IncompleteError(
            f"{server} no longer answers ({type(cause).__name__}: {reason(cause)}): what is finished "
            "is kept, the same command resumes from there"
        )
    if cause.response.status_code == HTTPStatus.UNAUTHORIZED:
        return McvrpError(
            f"{server} asks for a password: set PREFECT_API_AUTH_STRING to user:password "
            "(`mcvrp ui` prints it)"
        )
    return None  # of another version of Prefect, whose words name the request
