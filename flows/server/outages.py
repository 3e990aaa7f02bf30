"""Work that goes on while the Prefect server is away: it has the records, the store has the work.

What is recorded meanwhile comes late or is missing. Prefect's own engine would end the run.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Any
from uuid import UUID

import httpx
from prefect import flow_engine
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.concurrency._leases import maintain_concurrency_lease
from prefect.context import SyncClientContext
from prefect.flow_engine import FlowRunEngine
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.utilities.engine import propose_state_sync

from mcvrp.model.errors import McvrpError, reason

logger = logging.getLogger(__name__)

AWAY = (httpx.TransportError, httpx.HTTPStatusError)  # the second: up, and not well
STATE_RETRIES = 5  # with Prefect's pauses a minute, for a state: without it the work goes on
RETRIES = 9  # 17 minutes, for what no work can begin without
_BEGIN_SECONDS, _PAUSE_SECONDS = 1800.0, 2.0  # for the run of a stage, which Prefect itself asks for once
_LOOK_SECONDS = 0.2
_LONG_SECONDS = 60.0  # what lived as long as this is started again at once
_TRIES = 5  # in a row, of what lives shorter
_AWAY_SECONDS = 300.0  # for a server to come back that is started again
_told: list[str] = []
_create = FlowRunEngine.create_flow_run


@dataclass
class Keeper:
    """Keeper of a process that should not end by itself: starts it, and starts it again where it has ended.

    Parameters
    ----------
    log
        Where the process writes.
    ready
        Waits until the process works; McvrpError where it does not.
    """

    what: str
    log: IO[str]
    start: Callable[[], subprocess.Popen[str]]
    stop: Callable[[subprocess.Popen[str]], None]
    ready: Callable[[subprocess.Popen[str]], None] = lambda process: None
    _tries: int = 0
    _over: bool = False

    def __enter__(self) -> Keeper:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop the process for good, also while another thread starts it again."""
        if not self._over:
            self._over = True
            self.stop(self._process)

    @property
    def ended(self) -> bool:
        """True where the process is to be started again."""
        return not self._over and self._process.poll() is not None

    def look(self) -> None:
        """Start the process again if it has ended.

        Raises
        ------
        McvrpError
            If it ends again and again.
        """
        if not self.ended:
            return
        lived = time.monotonic() - self._began
        self._tries = 1 if lived > _LONG_SECONDS else self._tries + 1
        if self._tries > _TRIES:
            # the log of a command's own server has no name, and is gone with the command
            named = isinstance(self.log.name, str)
            hint = f"look at its log, {self.log.name}" if named else "see whether memory or the disk is full"
            raise McvrpError(f"the {self.what} ends again and again: {hint}")
        code = self._process.returncode
        logger.warning("the %s ended (exit code %d), starting it again", self.what, code)
        self.stop(self._process)  # what it has left behind
        with contextlib.suppress(McvrpError):  # the next look finds that it has ended
            self._start()

    def _start(self) -> None:
        self._began, self._process = time.monotonic(), self.start()
        try:
            self.ready(self._process)
        except BaseException:  # Ctrl-C among them: nobody else knows of the process yet
            self.stop(self._process)
            raise
        if self._over:
            self.stop(self._process)


class _GivenUp(httpx.TransportError):
    """The server will not answer any more; none of the errors after which Prefect's client tries again."""


class _Waiting(httpx.HTTPTransport):
    """Requests to a server that is being started again wait for it, unless they are for now or never."""

    given_up = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until = time.monotonic() + _AWAY_SECONDS
        while not self.given_up:
            try:
                return super().handle_request(request)
            except httpx.ConnectError as error:
                if not PREFECT_CLIENT_MAX_RETRIES.value():
                    raise
                if time.monotonic() > until:
                    self.give_up(error)
                time.sleep(_LOOK_SECONDS)
        raise _GivenUp("the Prefect server could not be started again")

    def give_up(self, error: Exception) -> None:
        if not self.given_up:
            logger.warning("the work goes on without a record: %s", error)
        _Waiting.given_up = True  # of the class: Prefect asks by other clients, too
        _told.append(str(error))


@contextmanager
def kept_running(keeper: Keeper) -> Iterator[None]:
    """Keep the Prefect server of ``keeper`` running while the context lasts; flows in it wait for it.

    Where it cannot be started again, they go on without a record.

    Raises
    ------
    McvrpError
        If it does not start at all.
    """
    over, transport = threading.Event(), _Waiting()
    _Waiting.given_up = False

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if keeper.ended:
                _told.append(keeper.what)  # the one line about it is the keeper's
            try:
                keeper.look()
            except McvrpError as error:
                transport.give_up(error)
                return

    run = flow_engine.run_flow
    # also starts the server the next time: a child of ours ends with the thread that has started it
    watcher = threading.Thread(target=watch, name="prefect server", daemon=True)
    with keeper, ExitStack() as stack:
        watcher.start()
        stack.callback(watcher.join)
        stack.callback(over.set)
        stack.callback(keeper.end)
        try:
            stack.enter_context(SyncClientContext(httpx_settings={"transport": transport}))
        except RuntimeError as error:  # the context compares versions with the server
            raise McvrpError(
                f"the Prefect server cannot be kept running ({reason(error)}): run the same command again"
            ) from None
        stack.callback(setattr, flow_engine, "run_flow", run)
        flow_engine.run_flow = partial(_run_recorded, run)
        yield


def _run_recorded(run: Callable[..., Any], flow: Any, **options: Any) -> Any:
    """Return what ``run`` of Prefect does with ``flow``; without a server, what its function returns.

    The body of a `stage` raises nothing, and its states are `_proposed`: an outage that comes through is
    one of the engine's own requests before the body.
    """
    try:
        return run(flow, **options)
    except _GivenUp:
        result = flow.fn(**(options.get("parameters") or {}))
        return result.result() if isinstance(result, State) else result


@contextmanager
def outliving_outages(*, waiting: bool = False) -> Iterator[None]:
    """Have flows that run in this context go on where the server does not answer; it is said once.

    Parameters
    ----------
    waiting
        Whether states wait for the server, too: nobody sits before the run.
    """
    # attributes of the module, where Prefect's engine looks them up
    flow_engine.propose_state_sync = partial(_proposed, RETRIES if waiting else STATE_RETRIES)  # type: ignore[attr-defined]
    flow_engine.maintain_concurrency_lease = _maintained  # type: ignore[attr-defined, assignment]
    FlowRunEngine.create_flow_run = _created  # type: ignore[assignment, method-assign]
    retries = max(RETRIES, PREFECT_CLIENT_MAX_RETRIES.value())
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: retries}):
        yield


def outlived() -> bool:
    """Return whether the server was away since `forget`, so that records may be missing."""
    return bool(_told)


def forget() -> None:
    """Forget what was told of an earlier server of this process."""
    _told.clear()


def tell(error: Exception) -> None:
    """Log that the server is away, the first time only."""
    if not _told:
        logger.warning(
            "the Prefect server does not answer: the work goes on, what is recorded meanwhile may be missing "
            "there, and a stage that is to begin waits for it (%s)",
            error,
        )
    _told.append(str(error))


def _proposed(
    retries: int, client: SyncPrefectClient, state: State[Any], flow_run_id: UUID, force: bool = False
) -> State[Any]:
    """Return what the server makes of ``state``; where it does not answer, the run is in that state."""
    try:
        with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: retries}):
            return propose_state_sync(client, state, flow_run_id=flow_run_id, force=force)
    except AWAY as error:
        tell(error)
        return state


def _created(engine: FlowRunEngine[Any, Any], client: SyncPrefectClient) -> FlowRun:
    """Return a new run on the server, which is waited for."""
    until = time.monotonic() + _BEGIN_SECONDS
    while True:
        try:
            return _create(engine, client)
        except AWAY as error:
            if _Waiting.given_up:
                raise _GivenUp(str(error)) from None
            if time.monotonic() > until:
                raise
            tell(error)
            time.sleep(_PAUSE_SECONDS)


def _maintained(lease_id: UUID, seconds: float, **options: Any) -> AbstractContextManager[None]:
    """Keep a slot of a deployment's limit; to have lost it ends no run: the store has leases of its own."""
    return maintain_concurrency_lease(
        lease_id, seconds, **(options | {"raise_on_lease_renewal_failure": False})
    )
