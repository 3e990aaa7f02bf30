"""End of runs which nobody works on, as worker or machine were killed, and of their task runs.

Runs are ended by automations of the Prefect server: a run that works sends a heartbeat, and the server
waits for the next. What they do ends no task run: a worker does, whoever has ended the run. Runs that
`mcvrp ui` stops it ends itself: on a busy machine they are killed before they have told the server.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from prefect.client.orchestration import PrefectClient, SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Crashed

from mcvrp.flows.server.automations import of_our_runs, save
from mcvrp.flows.server.deployments import TAG

_RUN = "prefect.flow-run."
_ENDED = ("Completed", "Failed", "TimedOut", "Crashed", "Cancelled")
CUT_OFF = "it was cut off: start it again, what is finished is kept"
_OF_DEAD_RUNS = FlowRunFilter.model_validate(
    {"tags": {"all_": [TAG]}, "state": {"type": {"any_": [StateType.CRASHED, StateType.CANCELLED]}}}
)
_OPEN = TaskRunFilter.model_validate({"state": {"type": {"any_": sorted(set(StateType) - TERMINAL_STATES)}}})
_WORKED_ON = (StateType.PENDING, StateType.RUNNING)
_TELL_SECONDS = 1.0  # whoever stops is waited for


@dataclass(frozen=True)
class Silence:
    """What is to follow an event of a run within a time, and the state of a run where it does not.

    Parameters
    ----------
    after
        Event that begins the time: "heartbeat", or the name of a state.
    expect
        Events of which one ends it. A run that has ended stays as it is, whatever was heard of it.
    """

    after: str
    expect: tuple[str, ...]
    within: timedelta
    state: StateType = StateType.CRASHED


SILENCES = (
    # three heartbeats of PREFECT_FLOWS_HEARTBEAT_FREQUENCY (`config.settings`)
    Silence("heartbeat", ("heartbeat", *_ENDED), timedelta(seconds=90)),
    # a process takes seconds to start, and is stopped within seconds: minutes are for a busy machine
    Silence(
        "Pending",
        ("Running", "Scheduled", "AwaitingConcurrencySlot", "Cancelling", *_ENDED),
        timedelta(minutes=10),
    ),
    Silence("Cancelling", _ENDED, timedelta(minutes=5), StateType.CANCELLED),
)


def end_dead_runs(client: SyncPrefectClient, silences: Sequence[Silence] = SILENCES) -> None:
    """Have the server of ``client`` end deployed runs of ours, and their stages, that fall silent."""
    for silence in silences:
        trigger = EventTrigger(
            **of_our_runs(),
            after={_RUN + silence.after},
            expect={_RUN + event for event in silence.expect},
            posture=Posture.Proactive,
            threshold=1,
            within=silence.within,
        )
        automation = AutomationCore(
            name=f"mcvrp: a run is dead, nothing after {silence.after}",
            description="Made by `python -m mcvrp.flows.server.deployments`, and again each time.",
            trigger=trigger,
            actions=[ChangeFlowRunState(state=silence.state, message=CUT_OFF)],
        )
        save(client, automation)


def end_stopped_runs(runs: Collection[str]) -> None:
    """Tell the server of the context that flow runs with the ids ``runs``, and their stages, are cut off.

    What has ended, or is being cancelled, stays as it is.

    Raises
    ------
    httpx.HTTPError
        If the server does not answer at once.
    """
    of_them = {"id": {"any_": runs}, "parent_flow_run_id": {"any_": runs}, "operator": "or_"}
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _TELL_SECONDS}) as client,
    ):
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(of_them)):
            if run.state_type in _WORKED_ON:
                client.set_flow_run_state(run.id, Crashed(message=CUT_OFF))


async def end_tasks_of_dead_runs(client: PrefectClient) -> None:
    """End task runs that have not ended though their flow run, one of ours, is crashed or cancelled.

    One look ends as many as the server gives in one answer, 200 unless it is told; the next look the others.
    """
    for run in await client.read_task_runs(flow_run_filter=_OF_DEAD_RUNS, task_run_filter=_OPEN):
        await client.set_task_run_state(run.id, Crashed(message="its flow run has ended"), force=True)
