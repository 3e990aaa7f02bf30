"""Automations of the Prefect server that end runs which nobody works on: worker or machine were killed.

Prefect's own: a run that works sends a heartbeat, and the server waits for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from mcvrp.flows.server.automations import of_our_runs, save

_RUN = "prefect.flow-run."
_ENDED = ("Completed", "Failed", "TimedOut", "Crashed", "Cancelled")
_MESSAGE = "it was cut off: start it again, what is finished is kept"


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
