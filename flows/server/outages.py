"""Work that goes on while the Prefect server is away: it has the records, the store has the work.

What is recorded meanwhile comes late or is missing. Prefect's own engine would end the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import httpx
from prefect import flow_engine
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.concurrency._leases import maintain_concurrency_lease
from prefect.flow_engine import FlowRunEngine
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.utilities.engine import propose_state_sync

logger = logging.getLogger(__name__)

AWAY = (httpx.TransportError, httpx.HTTPStatusError)  # the second: up, and not well
STATE_RETRIES = 5  # with Prefect's pauses a minute, for a state: without it the work goes on
RETRIES = 9  # 17 minutes, for what no work can begin without
_BEGIN_SECONDS, _PAUSE_SECONDS = 1800.0, 2.0  # for the run of a stage, which Prefect itself asks for once
_told: list[str] = []
_create = FlowRunEngine.create_flow_run


@contextmanager
def outliving_outages(*, waiting: bool = False) -> Iterator[None]:
    """Have flows that run in this context go on where the server does not answer; it is said once.

    Parameters
    ----------
    waiting
        Whether states wait for the server, too: nobody sits before the run.
    """
    _told.clear()
    # attributes of the module, where Prefect's engine looks them up
    flow_engine.propose_state_sync = partial(_proposed, RETRIES if waiting else STATE_RETRIES)  # type: ignore[attr-defined]
    flow_engine.maintain_concurrency_lease = _maintained  # type: ignore[attr-defined, assignment]
    FlowRunEngine.create_flow_run = _created  # type: ignore[assignment, method-assign]
    retries = max(RETRIES, PREFECT_CLIENT_MAX_RETRIES.value())
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: retries}):
        yield


def outlived() -> bool:
    """Return whether the server was away since the context began, so that records may be missing."""
    return bool(_told)


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
            if time.monotonic() > until:
                raise
            tell(error)
            time.sleep(_PAUSE_SECONDS)


def _maintained(lease_id: UUID, seconds: float, **options: Any) -> AbstractContextManager[None]:
    """Keep a slot of a deployment's limit; to have lost it ends no run: the store has leases of its own."""
    return maintain_concurrency_lease(
        lease_id, seconds, **(options | {"raise_on_lease_renewal_failure": False})
    )
