"""`mcvrp ui`: a Prefect server, all deployments on it, and a worker that executes the runs.

Server and worker are child processes, restarted when they end; each run is a child process of the worker.
None of them survives this process, however it ends.
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
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import NoReturn

import httpx
import psutil
from prefect.exceptions import PrefectException

from mcvrp.flows.config import settings
from mcvrp.flows.server import server as servers
from mcvrp.flows.server.automations import end_stopped_runs, notify_of_failures
from mcvrp.flows.server.keeper import Keeper
from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.processes import descendants, start_group

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_RUN_STOP_SECONDS = 4.5  # a run stops itself within `interrupt.ORDERLY_SECONDS`
# Prefect polls every 15 s by default, which a person who has pressed a button would notice.
_WORKER = {"PREFECT_WORKER_QUERY_SECONDS": "2", "PREFECT_WORKER_ENABLE_CANCELLATION": "true"}
_SERVER = {
    # in memory, the slots of runs that were killed together with the server would stay taken
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "true",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "true",
}


def serve(options: Namespace, store: str) -> NoReturn:
    """Serve until SIGINT or SIGTERM, which raise KeyboardInterrupt here; all child processes end with it.

    ``options`` are those of the command, ``store`` is the address of the store that runs use by default.
    McvrpError if the server or its database does not answer, or a deployment is refused.
    """
    database = servers.database_environment(options.database)  # checked first: nothing has been started yet
    server = _existing_server(options) or servers.server_at(options.port)
    path = settings.log_file()
    with path.open("w+", encoding="utf-8") as log, ExitStack() as stack:
        keepers: list[Keeper] = []
        if server.ours:
            logger.info("starting a Prefect server (4 s, the first time 15 s)")
            changes = _SERVER | database | {"PREFECT_UI_URL": server.page}
            keepers.append(stack.enter_context(servers.server_keeper(server, log, changes)))
        stack.enter_context(server.in_use())
        environment = settings.run_environment(server.url, server.password, store) | _WORKER
        _register(options, store, environment)
        if options.notify:
            notify_of_failures(options.notify)
        command = [sys.executable, "-m", "mcvrp.flows.server.worker"]
        start = partial(start_group, command, env=environment, stdout=log, stderr=log)
        keepers.append(stack.enter_context(Keeper("worker", log, start, _stop_worker)))
        logger.info("Prefect: %s (Ctrl-C stops it; log: %s)", server.link, path)
        while True:
            time.sleep(_LOOK_SECONDS)
            for keeper in keepers:
                keeper.look()


def _existing_server(options: Namespace) -> servers.Server | None:
    server = servers.configured_server()
    if server is None and servers.answers(url := servers.server_at(options.port).url, servers.ANSWER_SECONDS):
        server = servers.running_server(url)
    if server is None:
        _require_free(options.port)
        return None
    if options.database:
        raise McvrpError(
            f"a Prefect server runs at {server.page} already, on a database of its own: "
            "stop it, give another --port, or leave --database out"
        )
    logger.info("using the Prefect server at %s", server.page)
    return server


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise McvrpError(f"port {port} cannot be used ({error.strerror}): give --port") from None


def _register(options: Namespace, store: str, environment: Mapping[str, str]) -> None:
    """Register all deployments, in a child process: flows import libraries of gigabytes."""
    command = [sys.executable, "-m", "mcvrp.flows.server.deployments", "--last-of", store]
    command += ["--preset", options.preset] if options.preset else []
    command += [word for override in options.overrides for word in ("--set", override)]
    process = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["no reason given"]
        cause = lines[-1].removeprefix("mcvrp: ")
        raise McvrpError(
            f"the deployments cannot be registered ({cause}): correct that and start the UI again"
        )
    for line in process.stderr.splitlines():
        if line.startswith("mcvrp: "):  # a warning
            logger.warning("%s", line.removeprefix("mcvrp: "))
    logger.info("deployments: %s", ", ".join(process.stdout.split()))


def _stop_worker(worker: subprocess.Popen[str]) -> None:
    """End the runs of ``worker``, on record and as processes, then the worker, which would wait for them."""
    with contextlib.suppress(psutil.NoSuchProcess):
        runs = psutil.Process(worker.pid).children()
        with contextlib.suppress(httpx.HTTPError, PrefectException):  # its automations end them later
            end_stopped_runs(list(filter(None, map(_flow_run, runs))))
        for run in runs:
            with contextlib.suppress(psutil.NoSuchProcess):
                run.terminate()
        psutil.wait_procs(runs, timeout=_RUN_STOP_SECONDS)
    for pid in [worker.pid, *descendants(worker.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    worker.wait()


def _flow_run(process: psutil.Process) -> str | None:
    with contextlib.suppress(psutil.Error):
        return settings.worked_run(process.environ())
    return None
