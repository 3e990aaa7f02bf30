"""Automations of a Prefect server: made once, and made anew under their name."""

from __future__ import annotations

from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore
from prefect.events.schemas.events import ResourceSpecification

from mcvrp.flows.server.deployments import TAG


def of_our_runs() -> dict[str, Any]:
    """Return the part of a trigger that picks deployed runs of ours and their stages, each by itself."""
    return {
        "match": ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
        "match_related": ResourceSpecification(
            {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
        ),
        "for_each": {"prefect.resource.id"},
    }


def save(client: SyncPrefectClient, automation: AutomationCore) -> None:
    """Make ``automation``, in place of those of its name; one that is the same is left alone.

    A server that is given an automation anew forgets what it has seen for it, and what it waits for.
    """
    there = client.read_automations_by_name(automation.name)
    for old in there[1:]:  # Prefect lets names repeat
        client.delete_automation(old.id)
    if not there:
        client.create_automation(automation)
    elif there[0].model_dump(exclude={"id"}) != automation.model_dump():
        client.update_automation(there[0].id, automation)
