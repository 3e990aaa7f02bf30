"""A message when a run fails: a Prefect automation that calls a webhook, made once and kept up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

from model.errors import McvrpError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

NAME = "mcvrp: a run has failed"
BLOCK = "mcvrp-failed-run"
_TAG = "mcvrp"  # of every deployment of ours
# What Slack, Mattermost, Teams and ntfy show, and the parts of it for programs.
_PAYLOAD = """{
  "text": {{ ("mcvrp: " ~ flow_run.name ~ " " ~ flow_run.state.name ~ ": " ~ flow_run.state.message ~ " " ~ flow_run|ui_url) | tojson }},
  "id": {{ flow_run.id | string | tojson }},
  "run": {{ flow_run.name | tojson }},
  "deployment": {{ deployment.name | tojson }},
  "flow": {{ flow.name | tojson }},
  "state": {{ flow_run.state.name | tojson }},
  "message": {{ flow_run.state.message | tojson }},
  "url": {{ flow_run | ui_url | tojson }}
}"""  # noqa: E501


def check_address(url: str) -> None:
    """Raise McvrpError unless ``url`` is an address that can be called."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise McvrpError("--notify takes an address that begins with http:// or https://")


def notify_of_failures(url: str) -> None:
    """Have the server of the environment call ``url`` whenever a deployed run of ours fails or crashes.

    The address is kept as a secret of the server: it often holds a token, and no page shows it.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        _make_automation(client, _save_block(url))


def _save_block(url: str) -> UUID:
    from prefect.blocks.webhook import Webhook
    from prefect.types import SecretDict
    from pydantic import SecretStr

    block = Webhook(
        method="POST", url=SecretStr(url), headers=SecretDict({"Content-Type": "application/json"})
    )
    saved = block.save(BLOCK, overwrite=True)
    assert isinstance(saved, UUID)
    return saved


def _make_automation(client: SyncPrefectClient, block: UUID) -> None:
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    automation = AutomationCore(
        name=NAME,
        description="Calls the webhook that `mcvrp ui --notify` was given.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            match_related=ResourceSpecification(
                {"prefect.resource.id": f"prefect.tag.{_TAG}", "prefect.resource.role": "tag"}
            ),
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed", "prefect.flow-run.TimedOut"},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[CallWebhook(block_document_id=block, payload=_PAYLOAD)],
    )
    there = client.read_automations_by_name(NAME)
    for old in there[1:]:
        client.delete_automation(old.id)
    if there:
        client.update_automation(there[0].id, automation)
    else:
        client.create_automation(automation)
