"""Runs that the server believes in and nobody works on: their worker was killed, or the machine."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.filters import FlowRunFilterState, TaskRunFilterState
    from prefect.client.schemas.objects import FlowRun, State, StateType

_LABEL = "prefect.worker.name"  # Prefect's own, on each run that a worker has taken
ENDED = "it was cut off: start it again, what is finished is kept"


def worker_name(number: int) -> str:
    """Return the name of the ``number``-th worker of this process."""
    return f"mcvrp-{socket.gethostname()}-{os.getpid()}-{number}"


def end_dead_runs(working: str | None) -> int:
    """Tell the server of the environment which runs have ended; return how many.

    These are the runs of workers of this machine whose process is gone, their subflows and their
    tasks. Runs of other machines are none of our business.

    Parameters
    ----------
    working
        Name of the worker of this process that is at work, None where none is.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    with get_client(sync_client=True) as client:
        open_runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=_open_states()))
        dead = [run for run in open_runs if _is_dead(run.labels.get(_LABEL), working)]
        for run in dead:
            _end(client, run)
    return len(dead)


def _is_dead(worker: object, working: str | None) -> bool:
    here = f"mcvrp-{socket.gethostname()}-"
    if not isinstance(worker, str) or not worker.startswith(here) or worker == working:
        return False
    process = int(worker.removeprefix(here).partition("-")[0])
    return process == os.getpid() or not _runs(process)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _end(client: SyncPrefectClient, run: FlowRun) -> None:
    """Set the final states, the tasks' first: whoever waits for the run finds all of it ended."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled, Crashed

    parent = FlowRunFilterParentFlowRunId(any_=[run.id])
    for subflow in client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=_open_states(), parent_flow_run_id=parent)
    ):
        _end(client, subflow)
    _end_tasks(client, run.id)
    cancelling = run.state_type == StateType.CANCELLING
    state: State[Any] = Cancelled(message="cancelled while it ran") if cancelling else Crashed(message=ENDED)
    client.set_flow_run_state(run.id, state, force=True)


def _end_tasks(client: SyncPrefectClient, flow_run: UUID) -> None:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, TaskRunFilter
    from prefect.states import Crashed

    of_run = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run]))
    for task in client.read_task_runs(
        flow_run_filter=of_run, task_run_filter=TaskRunFilter(state=_task_states())
    ):
        client.set_task_run_state(task.id, Crashed(message=ENDED), force=True)


def _open_states() -> FlowRunFilterState:
    from prefect.client.schemas.filters import FlowRunFilterState, FlowRunFilterStateType

    return FlowRunFilterState(type=FlowRunFilterStateType(any_=_open_types()))


def _task_states() -> TaskRunFilterState:
    from prefect.client.schemas.filters import TaskRunFilterState, TaskRunFilterStateType

    return TaskRunFilterState(type=TaskRunFilterStateType(any_=_open_types()))


def _open_types() -> list[StateType]:
    from prefect.client.schemas.objects import StateType

    return [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
