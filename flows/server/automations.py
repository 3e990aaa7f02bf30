"""Automations of a Prefect server: runs that fall silent are ended, failed runs call a webhook.

A run that works sends heartbeats. The server ends it if they stop, because its worker or machine was killed.
That ends no task run: workers do (`end_tasks_of_dead_runs`). They also end the runs of killed commands, whose
own servers know no automations. Runs that `mcvrp ui` stops are ended by it: on a
busy machine they are killed before they have told the server.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import PrefectClient, SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate, LogCreate
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import TERMINAL_STATES, StateType, TaskRun
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.filters import EventFilter
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Crashed
from prefect.types import SecretDict
from pydantic import SecretStr

from mcvrp.flows.server.deployments import COMMAND_TAG, TAG
from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.progress import interrupted_text

CUT_OFF = interrupted_text("Interrupted")
NOTIFICATION = "mcvrp: a run has failed"
BLOCK = "mcvrp-failed-run"
_RUN = "prefect.flow-run."
_ENDED = ("Completed", "Failed", "TimedOut", "Crashed", "Cancelled")
_FAILED = {_RUN + state for state in ("Failed", "Crashed", "TimedOut")}
_STATE = "flow_run.state.name"
_SUMMARY = (
    f'"mcvrp: " ~ flow_run.name ~ " " ~ {_STATE} ~ ": " ~ flow_run.state.message ~ " " ~ flow_run|ui_url'
)
# Jinja expressions: "text" is what Slack, Mattermost, Teams and ntfy show, the others are for programs.
_FIELDS = {
    "text": _SUMMARY,
    "id": "flow_run.id | string",
    "run": "flow_run.name",
    "deployment": "deployment.name",
    "flow": "flow.name",
    "state": _STATE,
    "message": "flow_run.state.message",
    "url": "flow_run | ui_url",
}

_DEAD_RUNS = FlowRunFilter.model_validate(
    {
        "tags": {"any_": [TAG, COMMAND_TAG]},
        "state": {"type": {"any_": [StateType.CRASHED, StateType.CANCELLED]}},
    }
)
_OPEN = TaskRunFilter.model_validate({"state": {"type": {"any_": sorted(set(StateType) - TERMINAL_STATES)}}})
_WORKED_ON = (StateType.PENDING, StateType.RUNNING)
_OF_COMMANDS = FlowRunFilter.model_validate(
    {
        "tags": {"any_": [COMMAND_TAG]},
        "state": {"type": {"any_": sorted([*_WORKED_ON, StateType.CANCELLING])}},
    }
)
# three heartbeats of PREFECT_FLOWS_HEARTBEAT_FREQUENCY (`config.settings`)
SILENT = timedelta(seconds=90)
_TELL_SECONDS = 1.0  # a person who stops the UI waits for this request


@dataclass(frozen=True)
class Silence:
    """Rule that ends a run if no expected event follows an event of it within a time."""

    after: str  # "heartbeat", or the name of a state
    expect: tuple[str, ...]  # among them the states of ended runs, so that these stay as they are
    within: timedelta
    # of a run for which no expected event came
    state: StateType = StateType.CRASHED
    message: str = CUT_OFF


SILENCES = (
    Silence("heartbeat", ("heartbeat", *_ENDED), SILENT),
    # a process starts and stops within seconds: the minutes are for a busy machine
    Silence(
        "Pending",
        ("Running", "Scheduled", "AwaitingConcurrencySlot", "Cancelling", *_ENDED),
        timedelta(minutes=10),
    ),
    Silence("Cancelling", _ENDED, timedelta(minutes=5), StateType.CANCELLED, interrupted_text("Cancelled")),
)


def end_dead_runs(client: SyncPrefectClient, silences: Sequence[Silence] = SILENCES) -> None:
    """Have the server of ``client`` end deployed runs of mcvrp, and their stages, that fall silent."""
    for silence in silences:
        trigger = EventTrigger(
            **_our_runs(),
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
            actions=[ChangeFlowRunState(state=silence.state, message=silence.message)],
        )
        _save(client, automation)


def check_webhook(url: str) -> None:
    """Raise McvrpError unless ``url`` is an address that can be called."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # brackets that hold no IPv6 address
        valid = False
    if not valid:
        raise McvrpError("--notify is no address: give one that begins with http:// or https://")


def notify_of_failures(url: str) -> None:
    """Have the server of the environment call ``url`` whenever a deployed run of mcvrp fails or crashes.

    The address is stored as a secret of the server: it often contains a token, and no page shows it.
    """
    headers = SecretDict({"Content-Type": "application/json"})
    block = Webhook(method="POST", url=SecretStr(url), headers=headers).save(BLOCK, overwrite=True)
    fields = ", ".join(f'"{name}": {{{{ ({value}) | tojson }}}}' for name, value in _FIELDS.items())
    automation = AutomationCore(
        name=NOTIFICATION,
        description="Calls the webhook of `mcvrp ui --notify`.",
        trigger=EventTrigger(**_our_runs(), expect=_FAILED, posture=Posture.Reactive, threshold=1),
        actions=[CallWebhook(block_document_id=block, payload=f"{{{fields}}}")],
    )
    with get_client(sync_client=True) as client:
        _save(client, automation)


def _our_runs() -> dict[str, Any]:
    return {
        "match": ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
        "match_related": ResourceSpecification(
            {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
        ),
        "for_each": {"prefect.resource.id"},
    }


def _save(client: SyncPrefectClient, automation: AutomationCore) -> None:
    # One that has not changed is left alone: an update makes the server forget the events that it waits for.
    stored = client.read_automations_by_name(automation.name)
    for duplicate in stored[1:]:  # Prefect lets names repeat
        client.delete_automation(duplicate.id)
    if not stored:
        client.create_automation(automation)
    elif stored[0].model_dump(exclude={"id"}) != automation.model_dump():
        client.update_automation(stored[0].id, automation)


def end_stopped_runs(runs: Collection[str]) -> None:
    """Set the flow runs with the ids ``runs``, and their stages, to Crashed on the server of the context.

    Runs that have ended or are being cancelled keep their state; httpx.HTTPError if no server answers.
    """
    selection = {"id": {"any_": runs}, "parent_flow_run_id": {"any_": runs}, "operator": "or_"}
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _TELL_SECONDS}) as client,
    ):
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(selection)):
            if run.state_type in _WORKED_ON:
                client.set_flow_run_state(run.id, Crashed(message=CUT_OFF))


async def end_dead_commands(client: PrefectClient, within: timedelta = SILENT) -> None:
    """Set runs of commands to Crashed that have begun and sent no heartbeat ``within`` a time before now.

    Call it once the server has been up for that long: without one, no heartbeat arrives.
    """
    since = datetime.now(UTC) - within
    for run in await client.read_flow_runs(flow_run_filter=_OF_COMMANDS):
        heartbeats = {
            "occurred": {"since": since},
            "event": {"name": [_RUN + "heartbeat"]},
            "resource": {"id": [f"prefect.flow-run.{run.id}"]},
        }
        new = run.state is None or run.state.timestamp > since
        if not new and not (await client.read_events(EventFilter.model_validate(heartbeats), limit=1)).events:
            await client.set_flow_run_state(run.id, Crashed(message=CUT_OFF))


async def end_tasks_of_dead_runs(client: PrefectClient) -> None:
    """End open task runs whose flow run, one of mcvrp, is crashed or cancelled.

    One call ends as many as the server returns at once, 200 by default; the next call ends the others.
    """
    for run in await client.read_task_runs(flow_run_filter=_DEAD_RUNS, task_run_filter=_OPEN):
        await _report_kept(client, run)
        await client.set_task_run_state(run.id, Crashed(message="its flow run has ended"), force=True)


async def _report_kept(client: PrefectClient, run: TaskRun) -> None:
    """Add to the log and the bars of the killed task ``run`` what the next one finds of it."""
    selection = {"task_run_id": {"any_": [run.id]}, "type": {"any_": ["progress"]}}
    bars = await client.read_artifacts(artifact_filter=ArtifactFilter.model_validate(selection))
    texts = {bar.id: bar.description or "" for bar in bars if bar.data != 100}
    if not texts:
        return
    # A bar is updated every few seconds: more may be kept.
    sentence = interrupted_text("Interrupted", "; ".join(texts.values()), "at least ")
    for id, text in texts.items():
        update = ArtifactUpdate(description=f"{text.partition(':')[0]}: {sentence}")
        await client.update_artifact(id, update)
    line = {"name": __name__, "level": logging.WARNING, "message": sentence, "timestamp": datetime.now(UTC)}
    of_run = {"flow_run_id": run.flow_run_id, "task_run_id": run.id}
    await client.create_logs([LogCreate.model_validate(line | of_run)])
