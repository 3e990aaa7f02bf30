"""Runs that the server believes in and nobody works on: their worker was killed, or the machine."""

from __future__ import annotations

import os
import socket
from typing import Any

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Crashed

_LABEL = "prefect.worker.name"  # Prefect's own, on each run that a worker has taken
_OPEN = {"type": {"any_": [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]}}
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
    with get_client(sync_client=True) as client:
        open_runs = _open_runs(client)
        dead = [run for run in open_runs if _is_dead(run.labels.get(_LABEL), working)]
        for run in dead:
            _end(client, run)
    return len(dead)


def _open_runs(client: SyncPrefectClient, **more: Any) -> list[FlowRun]:
    chosen = FlowRunFilter.model_validate({"state": _OPEN, **more})
    return client.read_flow_runs(flow_run_filter=chosen)


def _is_dead(worker: object, working: str | None) -> bool:
    here = f"mcvrp-{socket.gethostname()}-"
    if not isinstance(worker, str) or not worker.startswith(here) or worker == working:
        return False
    process = int(worker.removeprefix(here).partition("-")[0])
    # a worker of this process that is not the one at work is one that we have replaced
    return process == os.getpid() or not psutil.pid_exists(process)


def _end(client: SyncPrefectClient, run: FlowRun) -> None:
    """Set the final states, the tasks' first: whoever waits for the run finds all of it ended."""
    for subflow in _open_runs(client, parent_flow_run_id={"any_": [run.id]}):
        _end(client, subflow)
    for task in client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run.id]}}),
        task_run_filter=TaskRunFilter.model_validate({"state": _OPEN}),
    ):
        # force: no worker is left to ask, and the server's rules are for runs that have one
        client.set_task_run_state(task.id, Crashed(message=ENDED), force=True)
    cancelling = run.state_type == StateType.CANCELLING
    state: State[Any] = Cancelled(message="cancelled while it ran") if cancelling else Crashed(message=ENDED)
    client.set_flow_run_state(run.id, state, force=True)
