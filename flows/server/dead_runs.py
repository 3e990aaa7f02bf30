"""End of runs which nobody works on, as worker or machine were killed, and of their task runs.

Runs are ended by automations of the Prefect server: a run that works sends a heartbeat, and the server
waits for the next. What they do ends no task run: a worker does, whoever has ended the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.states import Crashed

from mcvrp.flows.server.automations import of_our_runs, save
from mcvrp.flows.server.deployments import TAG

_RUN = "prefect.flow-run."
_ENDED = ("Completed", "Failed", "TimedOut", "Crashed", "Cancelled")
_MESSAGE = "it was cut off: start it again, what is finished is kept"
_OF_DEAD_RUNS = FlowRunFilter.model_validate(
    {"tags": {"all_": [TAG]}, "state": {"type": {"any_": [StateType.CRASHED, StateType.CANCELLED]}}}
)
_OPEN = TaskRunFilter.model_validate({"state": {"type": {"any_": sorted(set(StateType) - TERMINAL_STATES)}}})


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
            actions=[ChangeFlowRunState(state=silence.state, message=_MESSAGE)],
        )
        save(client, automation)


async def end_tasks_of_dead_runs(client: PrefectClient) -> None:
    """End task runs that have not ended though their flow run, one of ours, is crashed or cancelled.

    One look ends as many as the server gives in one answer, 200 unless it is told; the next look the others.
    """
    for run in await client.read_task_runs(flow_run_filter=_OF_DEAD_RUNS, task_run_filter=_OPEN):
        await client.set_task_run_state(run.id, Crashed(message="its flow run has ended"), force=True)
