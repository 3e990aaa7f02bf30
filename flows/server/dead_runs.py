"""End of runs whose process has ended, and of their task runs.

`automations` has the server end runs that fall silent, which ends no task run: workers do that. Runs that
`mcvrp ui` stops are ended by it: on a busy machine they are killed before they have told the server.
"""

from __future__ import annotations

from collections.abc import Collection

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Crashed

from mcvrp.flows.server.automations import CUT_OFF
from mcvrp.flows.server.deployments import TAG

_DEAD_RUNS = FlowRunFilter.model_validate(
    {"tags": {"all_": [TAG]}, "state": {"type": {"any_": [StateType.CRASHED, StateType.CANCELLED]}}}
)
_OPEN = TaskRunFilter.model_validate({"state": {"type": {"any_": sorted(set(StateType) - TERMINAL_STATES)}}})
_WORKED_ON = (StateType.PENDING, StateType.RUNNING)
_TELL_SECONDS = 1.0  # a person who stops the UI waits for this request


def end_stopped_runs(runs: Collection[str]) -> None:
    """Set the flow runs with the ids ``runs``, and their stages, to Crashed on the server of the context.

    Runs that have ended or are being cancelled keep their state.

    Raises
    ------
    httpx.HTTPError
        If the server does not answer at once.
    """
    selection = {"id": {"any_": runs}, "parent_flow_run_id": {"any_": runs}, "operator": "or_"}
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _TELL_SECONDS}) as client,
    ):
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(selection)):
            if run.state_type in _WORKED_ON:
                client.set_flow_run_state(run.id, Crashed(message=CUT_OFF))


async def end_tasks_of_dead_runs(client: PrefectClient) -> None:
    """End open task runs whose flow run, one of mcvrp, is crashed or cancelled.

    One call ends as many as the server returns at once, 200 by default; the next call ends the others.
    """
    for run in await client.read_task_runs(flow_run_filter=_DEAD_RUNS, task_run_filter=_OPEN):
        await client.set_task_run_state(run.id, Crashed(message="its flow run has ended"), force=True)
