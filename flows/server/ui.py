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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, NoReturn

from mcvrp.flows.config import settings
from mcvrp.flows.server.dead_runs import end_dead_runs, worker_name
from mcvrp.flows.server.deployments import POOL, notify_of_failures
from mcvrp.flows.server.server import (
    ANSWER_SECONDS,
    STOP_SECONDS,
    Server,
    answers,
    configured_server,
    database_environment,
    server_at,
    start_server,
    wait_for_server,
)
from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.processes import descendants, start_group, stop_group

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_LONG_SECONDS = 60.0  # what lived as long as this is started again at once
_TRIES = 5  # in a row, of what lives shorter
# Runs start within seconds; slots of runs that were killed come back after a restart, too.
_WORKER = {"PREFECT_WORKER_QUERY_SECONDS": "2", "PREFECT_WORKER_ENABLE_CANCELLATION": "true"}
_SERVER = {
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "true",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "true",
}


@dataclass(frozen=True)
class Options:
    """What `mcvrp ui` was asked for.

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
    from prefect.settings import PREFECT_API_URL, temporary_settings

    server = _found(options) or server_at(options.port)
    ours = _SERVER | database_environment(options.database) if server.ours else None
    path = settings.log_file()
    with path.open("w+", encoding="utf-8") as log, ExitStack() as stack:
        keepers: list[_Keeper] = []
        if ours is not None:
            logger.info("starting a Prefect server (4 s, the first time 15 s)")
            keepers.append(_ServerKeeper(server, log, ours | {"PREFECT_UI_URL": server.page}))
            stack.enter_context(keepers[0].running())
        stack.enter_context(temporary_settings({PREFECT_API_URL: server.url}))
        environment = settings.run_environment(server.url, options.store) | _WORKER
        _register(options, environment)
        if options.notify:
            notify_of_failures(options.notify)
        keepers.append(_Worker(environment, log))
        stack.enter_context(keepers[-1].running())
        logger.info("Prefect: %s (Ctrl-C stops it, what is said meanwhile: %s)", server.page, path)
        while True:
            time.sleep(_LOOK_SECONDS)
            for keeper in keepers:
                keeper.look()


def _found(options: Options) -> Server | None:
    """Return the server that runs already, None where one of our own is to be started."""
    there = configured_server()
    if there is None and answers(server_at(options.port).url, ANSWER_SECONDS):
        there = Server(server_at(options.port).url, ours=False)
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
        raise McvrpError(f"the deployments cannot be registered: {said[-1].removeprefix('mcvrp: ')}")
    logger.info("deployments: %s", ", ".join(done.stdout.split()))


class _Keeper:
    """Keeps a process running that should not end by itself."""

    what = ""

    def __init__(self, log: IO[str]) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._began = 0.0
        self._tries = 0

    def start(self) -> subprocess.Popen[str]:
        """Start the process."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the process and all below it."""
        if self._process:
            stop_group(self._process, grace=STOP_SECONDS)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the process for as long as the context lasts."""
        try:
            self._began, self._process = time.monotonic(), self.start()
            yield
        finally:
            self.stop()

    def look(self) -> None:
        """Start the process again if it has ended."""
        assert self._process is not None
        if self._process.poll() is None:
            return
        lived = time.monotonic() - self._began
        self._tries = 1 if lived > _LONG_SECONDS else self._tries + 1
        if self._tries > _TRIES:
            raise McvrpError(f"the {self.what} ends again and again: its last words are in {self._log.name}")
        code = self._process.returncode
        logger.warning("the %s ended (exit code %d), starting it again", self.what, code)
        self.stop()
        self._began, self._process = time.monotonic(), self.start()


class _ServerKeeper(_Keeper):
    what = "Prefect server"

    def __init__(self, server: Server, log: IO[str], environment: Mapping[str, str]) -> None:
        super().__init__(log)
        self._server, self._environment = server, environment

    def start(self) -> subprocess.Popen[str]:
        process = start_server(self._server, self._log, self._environment)
        try:
            wait_for_server(process, self._server, self._log)
        except BaseException:
            stop_group(process, grace=STOP_SECONDS)
            raise
        return process


class _Worker(_Keeper):
    what = "worker"

    def __init__(self, environment: Mapping[str, str], log: IO[str]) -> None:
        super().__init__(log)
        self._environment, self._number = environment, 0

    def start(self) -> subprocess.Popen[str]:
        self._number += 1
        name = worker_name(self._number)
        if ended := end_dead_runs(working=name):
            logger.warning(
                "%d runs that were cut off are on record as crashed: start them again in the UI", ended
            )
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name]
        return start_group(
            [*command, "--type", "process"], env=self._environment, stdout=self._log, stderr=self._log
        )

    def stop(self) -> None:
        """Kill the worker and its runs, and have the server know: asked to end it would wait for them."""
        if not self._process:
            return
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(Exception):  # else the next `mcvrp ui` does it
            end_dead_runs(working=None)
