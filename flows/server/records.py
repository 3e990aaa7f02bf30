"""Records of the flow runs and task runs of one process, and the check that the Prefect server has them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun
from prefect.exceptions import ObjectNotFound

from mcvrp.model.errors import IncompleteError, brief
from mcvrp.storage.cities import StoredCity

logger = logging.getLogger(__name__)

AWAY = (httpx.TransportError, httpx.HTTPStatusError)
DRAIN_SECONDS = 30.0
POLL_SECONDS = 0.25
_PAGE = 200  # runs per answer: the server omits without notice what exceeds its own limit


def is_outage(error: Exception) -> bool:
    """Return whether ``error`` of a request means that the server is away, or up and not well."""
    # the check of versions that precedes the first request wraps what it was raised by
    return isinstance(error, AWAY) or isinstance(error.__cause__, AWAY)


@dataclass(frozen=True)
class EndedRun:
    kind: str
    name: str
    state: StateType


@dataclass
class Records:
    """Runs that ended in this process, and whether the Prefect server could record them.

    One object per command or deployed run: a `StageFlow` passes it on to the stages and tasks that it calls.
    """

    runs: dict[UUID, EndedRun] = field(default_factory=dict)
    outage: bool = False  # the server did not answer at some time: records may be missing
    # Set once stages no longer wait for the server and run without a record.
    given_up: threading.Event = field(default_factory=threading.Event)
    # Cities by store and name, once the input of all stages has passed its preflight. Arguments of a flow,
    # which Prefect sends to its server, cannot contain a matrix of 10^8 costs.
    cities: dict[tuple[str, str], StoredCity] | None = None

    def add(self, run: FlowRun | TaskRun, outcome: object) -> None:
        """Add ``run`` with its final state, or with what its function returned."""
        kind = "flow" if isinstance(run, FlowRun) else "task"
        state = outcome.type if isinstance(outcome, State) else StateType.COMPLETED
        self.runs[run.id] = EndedRun(kind, run.name, state)

    def report_outage(self, error: Exception) -> None:
        """Log that the server is away, the first time only."""
        if not self.outage:
            logger.warning(
                "the Prefect server does not answer: the work continues, its records may be missing, "
                "and a stage that begins waits for the server (%s)",
                error,
            )
        self.outage = True

    def verify(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until the server has every run in its final state.

        Task runs reach the server as events, which it processes some time after the run has ended. After an
        outage, missing records are a warning and no error: the work itself is complete. Otherwise they are an
        IncompleteError after ``seconds``.
        """
        if self.given_up.is_set():
            return
        deadline = time.monotonic() + seconds
        if self.outage:
            self._resend("flow")
        while (missing := self._missing()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if missing and self.outage:
            self._resend("task")  # only now: Prefect itself repeats their events for a while
            missing = self._missing()
        if not missing:
            return
        names = ", ".join(f"{run.kind} '{run.name}'" for run in missing.values())
        if self.outage:
            logger.warning("records missing in Prefect, whose server was away: %s", brief(names))
            return
        raise IncompleteError(
            f"the work is done, but {len(missing)} of {len(self.runs)} runs are not on record with Prefect "
            f"({names}): look at the server's log; run the command again to record them"
        )

    def _missing(self) -> dict[UUID, EndedRun]:
        """Return the runs that the server does not have in their final states; none if it is away."""
        try:
            with get_client(sync_client=True) as client:
                stored = _states(client, list(self.runs))
        except AWAY as error:
            self.report_outage(error)
            return {}
        return {id: run for id, run in self.runs.items() if stored.get(id) != run.state}

    def _resend(self, kind: str) -> None:
        missing = self._missing()
        with get_client(sync_client=True) as client:
            set_state: Any = client.set_flow_run_state if kind == "flow" else client.set_task_run_state
            for id, run in missing.items():
                if run.kind == kind:
                    with contextlib.suppress(ObjectNotFound, *AWAY):  # never created there, or away again
                        set_state(id, State(type=run.state), force=True)


def _states(client: SyncPrefectClient, ids: list[UUID]) -> dict[UUID, StateType | None]:
    runs: list[FlowRun | TaskRun] = []
    for start in range(0, len(ids), _PAGE):
        page = {"id": {"any_": ids[start : start + _PAGE]}}
        runs += client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(page))
        runs += client.read_task_runs(task_run_filter=TaskRunFilter.model_validate(page))
    return {run.id: run.state_type for run in runs}
