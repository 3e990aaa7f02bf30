"""`mcvrp ui`: a Prefect server, every deployment on it, and a worker that runs what the UI starts.

The server and the worker are processes of their own, started again when they end; a run is a
process below the worker. None of them outlives this process, however it ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import IO, NoReturn

import httpx
import psutil
from prefect.exceptions import PrefectException

from mcvrp.flows.config import settings
from mcvrp.flows.server.dead_runs import end_stopped_runs
from mcvrp.flows.server.notify import notify_of_failures
from mcvrp.flows.server.outages import Keeper
from mcvrp.flows.server.server import (
    ANSWER_SECONDS,
    Server,
    answers,
    configured_server,
    database_environment,
    running_server,
    server_at,
    server_keeper,
)
from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.processes import descendants, start_group

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_RUN_STOP_SECONDS = 4.5  # a run stops within `interrupt.ORDERLY_SECONDS`, and is killed if it does not
# Runs start within seconds; slots of runs that were killed come back after a restart, too.
_WORKER = {"PREFECT_WORKER_QUERY_SECONDS": "2", "PREFECT_WORKER_ENABLE_CANCELLATION": "true"}
_SERVER = {
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "true",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "true",
}


@dataclass(frozen=True)
class Options:
    """Options of `mcvrp ui`.

    Parameters
    ----------
    store
        Address of the store that runs use which name no other.
    preset, overrides
        What the forms begin with.
    database
        Address of the server's database, None for what the environment says, else SQLite.
    notify
        Address to call when a run fails, None for none.
    """

    store: str
    preset: str
    overrides: Sequence[str]
    port: int
    database: str | None
    notify: str | None


def serve(options: Options) -> NoReturn:
    """Serve until SIGINT or SIGTERM, which raise KeyboardInterrupt here; nothing of us is left then.

    Raises
    ------
    McvrpError
        If the server does not start or answer, its database does not, or a deployment is refused.
    """
    database = database_environment(options.database)  # an address that does not answer is refused now
    server = _found(options) or server_at(options.port)
    path = settings.log_file()
    with path.open("w+", encoding="utf-8") as log, ExitStack() as stack:
        keepers: list[Keeper] = []
        if server.ours:
            logger.info("starting a Prefect server (4 s, the first time 15 s)")
            changes = _SERVER | database | {"PREFECT_UI_URL": server.page}
            keepers.append(stack.enter_context(server_keeper(server, log, changes)))
        stack.enter_context(server.in_use())
        environment = settings.run_environment(server.url, server.password, options.store) | _WORKER
        _register(options, environment)
        if options.notify:
            notify_of_failures(options.notify)
        start = partial(_start_worker, environment, log)
        keepers.append(stack.enter_context(Keeper("worker", log, start, _stop_worker)))
        logger.info("Prefect: %s (Ctrl-C stops it, what is said meanwhile: %s)", server.link, path)
        while True:
            time.sleep(_LOOK_SECONDS)
            for keeper in keepers:
                keeper.look()


def _found(options: Options) -> Server | None:
    """Return the server that runs already, None where one of our own is to be started."""
    there = configured_server()
    if there is None and answers(url := server_at(options.port).url, ANSWER_SECONDS):
        there = running_server(url)
    if there is None:
        _require_free(options.port)
        return None
    if options.database:
        raise McvrpError(
            f"a Prefect server runs at {there.page} already, on a database of its own: "
            "stop it, give another --port, or leave --database out"
        )
    logger.info("there is a Prefect server at %s", there.page)
    return there


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise McvrpError(f"port {port} cannot be used ({error.strerror}): give --port") from None


def _register(options: Options, environment: Mapping[str, str]) -> None:
    """Register all deployments in a process of its own: the flows bring gigabytes of libraries along."""
    command = [sys.executable, "-m", "mcvrp.flows.server.deployments", "--preset", options.preset]
    for override in options.overrides:
        command += ["--set", override]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        why = said[-1].removeprefix("mcvrp: ")
        raise McvrpError(
            f"the deployments cannot be registered ({why}): correct that, and start the UI again"
        )
    logger.info("deployments: %s", ", ".join(done.stdout.split()))


def _start_worker(environment: Mapping[str, str], log: IO[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mcvrp.flows.server.worker"]
    return start_group(command, env=environment, stdout=log, stderr=log)


def _stop_worker(worker: subprocess.Popen[str]) -> None:
    """Tell the server that the runs end, end them, and the worker: asked itself it would wait for them."""
    with contextlib.suppress(psutil.NoSuchProcess):
        runs = psutil.Process(worker.pid).children()
        with contextlib.suppress(httpx.HTTPError, PrefectException):  # then it finds out by itself
            end_stopped_runs([run_id for run in runs if (run_id := _flow_run(run))])
        for run in runs:
            with contextlib.suppress(psutil.NoSuchProcess):
                run.terminate()
        psutil.wait_procs(runs, timeout=_RUN_STOP_SECONDS)
    for pid in [worker.pid, *descendants(worker.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.wait()


def _flow_run(process: psutil.Process) -> str | None:
    """Return the id of the flow run that ``process`` works on, None where it works on none."""
    with contextlib.suppress(psutil.Error):
        return settings.worked_run(process.environ())
    return None
