"""Notification of failed runs: a webhook that the Prefect server calls."""

from __future__ import annotations

from urllib.parse import urlsplit

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.events.actions import CallWebhook
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.types import SecretDict
from pydantic import SecretStr

from mcvrp.flows.server.automations import of_our_runs, save
from mcvrp.model.errors import McvrpError

NAME = "mcvrp: a run has failed"
BLOCK = "mcvrp-failed-run"
_FAILED = {"prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.TimedOut"}
_STATE = "flow_run.state.name"
_SUMMARY = (
    f'"mcvrp: " ~ flow_run.name ~ " " ~ {_STATE} ~ ": " ~ flow_run.state.message ~ " " ~ flow_run|ui_url'
)
# Expressions of Jinja: "text" is what Slack, Mattermost, Teams and ntfy show, the others are for programs.
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


def check_address(url: str) -> None:
    """Raise McvrpError unless ``url`` is an address that can be called."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise McvrpError("--notify is no address: give one that begins with http:// or https://")


def notify_of_failures(url: str) -> None:
    """Have the server of the environment call ``url`` whenever a deployed run of ours fails or crashes.

    The address is kept as a secret of the server: it often holds a token, and no page shows it.
    """
    headers = SecretDict({"Content-Type": "application/json"})
    block = Webhook(method="POST", url=SecretStr(url), headers=headers).save(BLOCK, overwrite=True)
    fields = ", ".join(f'"{name}": {{{{ ({value}) | tojson }}}}' for name, value in _FIELDS.items())
    automation = AutomationCore(
        name=NAME,
        description="Calls the webhook that `mcvrp ui --notify` was given.",
        trigger=EventTrigger(**of_our_runs(), expect=_FAILED, posture=Posture.Reactive, threshold=1),
        actions=[CallWebhook(block_document_id=block, payload=f"{{{fields}}}")],
    )
    with get_client(sync_client=True) as client:
        save(client, automation)
