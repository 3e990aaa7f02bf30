"""Runs that this process told Prefect about, and the check that the server has every one of them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun
from prefect.exceptions import ObjectNotFound

from mcvrp.flows.server.outages import AWAY, outlived, tell
from mcvrp.model.errors import IncompleteError, brief

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 30.0
POLL_SECONDS = 0.25
_PAGE = 200  # runs of one answer: the server leaves out what is beyond its own limit, and says nothing


@dataclass(frozen=True)
class Record:
    """One flow run or task run that has ended: its ``state`` is "COMPLETED", "FAILED", ..."""

    kind: str
    id: UUID
    name: str
    state: str


class Records:
    """The runs that ended in this process, by the hooks that its flows and tasks carry."""

    def __init__(self) -> None:
        self._records: dict[UUID, Record] = {}

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def clear(self) -> None:
        """Forget all runs."""
        self._records.clear()

    # Prefect's engine calls the hooks by position, its worker, which cancels runs, by these names.
    def flow_ended(self, flow: Any, flow_run: Any, state: Any) -> None:
        """Take note of a flow run; a state hook of Prefect."""
        self._records[flow_run.id] = Record("flow", flow_run.id, flow_run.name, state.type.value)

    def task_ended(self, task: Any, task_run: Any, state: Any) -> None:
        """Take note of a task run; a state hook of Prefect."""
        self._records[task_run.id] = Record("task", task_run.id, task_run.name, state.type.value)

    def missing(self) -> list[Record]:
        """Return the runs that the server does not have in their final state."""
        ids, stored = list(self._records), dict[UUID, str]()
        with get_client(sync_client=True) as client:
            for start in range(0, len(ids), _PAGE):
                of_page = {"id": {"any_": ids[start : start + _PAGE]}}
                runs: list[FlowRun | TaskRun] = [
                    *client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(of_page)),
                    *client.read_task_runs(task_run_filter=TaskRunFilter.model_validate(of_page)),
                ]
                stored |= {run.id: run.state.type.value for run in runs if run.state}
        return [record for record in self if stored.get(record.id) != record.state]

    def verify(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until the server has every run in its final state.

        Where it was away meanwhile, what is missing is said and no error: the work is done.

        Raises
        ------
        IncompleteError
            If some are not there after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        if outlived():
            self._repeat("flow")
        while (missing := self._missing()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if missing and outlived():
            self._repeat("task")  # not before: Prefect itself tells of them again for a while
            missing = self._missing()
        if not missing:
            return
        names = ", ".join(f"{record.kind} '{record.name}'" for record in missing)
        if outlived():
            logger.warning("not on record with Prefect, which was away: %s", brief(names))
            return
        raise IncompleteError(
            f"the work is done, but {len(missing)} of {len(self)} stages are not on record with "
            f"Prefect ({names}): look at the server's log; run the command again to record them"
        )

    def _repeat(self, kind: str) -> None:
        """Tell the server how runs of ``kind`` ended while it was away, as far as it knows them."""
        missing = [record for record in self._missing() if record.kind == kind]
        with get_client(sync_client=True) as client:
            tell_it = client.set_flow_run_state if kind == "flow" else client.set_task_run_state
            for record in missing:
                with contextlib.suppress(ObjectNotFound, *AWAY):  # or is away again
                    tell_it(record.id, State(type=StateType(record.state)), force=True)

    def _missing(self) -> list[Record]:
        """Return what `missing` does; nothing where the server is away, which is said."""
        try:
            return self.missing()
        except AWAY as error:
            tell(error)
            return []


RECORDS = Records()

Hook = Callable[[Any, Any, Any], None]


def flow_hooks() -> dict[str, list[Hook]]:
    """Return the hooks of a flow that is to be on record."""
    events = ("on_completion", "on_failure", "on_crashed", "on_cancellation")
    return {event: [RECORDS.flow_ended] for event in events}


def task_hooks() -> dict[str, list[Hook]]:
    """Return the hooks of a task that is to be on record."""
    return {event: [RECORDS.task_ended] for event in ("on_completion", "on_failure")}
