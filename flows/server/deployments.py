"""Every deployment of prefect.yaml, registered with a server: its form, its first values, its limits.

Run it as `python -m flows.server.deployments`. Unlike `prefect deploy` it fills the forms from a preset,
takes away what prefect.yaml does not list any more, keeps the schedules that somebody has changed
in the UI, and needs no folder to run in.
"""

from __future__ import annotations

import argparse
import logging
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

import yaml
from pydantic import BaseModel

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import one_line, terminal
from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError

logger = logging.getLogger("mcvrp.flows.server.deployments")  # also under python -m

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.actions import DeploymentScheduleCreate

POOL = "mcvrp"
TAG = "mcvrp"  # what is ours, and goes when prefect.yaml does not list it any more
COMMAND = "python -m mcvrp.flows.server.engine"


@dataclass(frozen=True)
class Deployment:
    """An entry of prefect.yaml."""

    name: str
    entrypoint: str
    description: str
    tags: tuple[str, ...]
    concurrency: Mapping[str, Any] | None
    schedules: tuple[Mapping[str, Any], ...]
    parameters: Mapping[str, Any]

    @property
    def module_path(self) -> str:
        """The flow as Python imports it, from any folder: "mcvrp.flows.label.label"."""
        path, _, name = self.entrypoint.rpartition(":")
        return f"mcvrp.{path.removesuffix('.py').replace('/', '.')}.{name}" if path else self.entrypoint

    def flow(self) -> Flow[Any, Any]:
        """Return its flow."""
        from prefect.flows import load_flow_from_entrypoint

        return load_flow_from_entrypoint(self.module_path, use_placeholder_flow=False)


def prefect_yaml() -> Path:
    """Return the file: in the root of the repository, or where an installed package has it."""
    places = [Path(__file__).resolve().parents[2], Path(sysconfig.get_path("data"), "share", "mcvrp")]
    for place in places:
        if (place / "prefect.yaml").is_file():
            return place / "prefect.yaml"
    raise McvrpError(f"there is no prefect.yaml in {' or '.join(map(str, places))}: install mcvrp again")


def deployments() -> list[Deployment]:
    """Return what prefect.yaml lists."""
    entries = yaml.safe_load(prefect_yaml().read_text(encoding="utf-8"))["deployments"]
    return [
        Deployment(
            name=entry["name"],
            entrypoint=entry["entrypoint"],
            description=entry.get("description", ""),
            tags=tuple(entry.get("tags", ())),
            concurrency=entry.get("concurrency_limit"),
            schedules=tuple(entry.get("schedules", ())),
            parameters=entry.get("parameters") or {},
        )
        for entry in entries
    ]


def first_values(flow: Flow[Any, Any], preset: PipelineSpec) -> dict[str, Any]:
    """Return what ``preset`` says about the parameters of ``flow``: the values that its form begins with."""
    asked = STAGES[flow.name].asks(preset)
    return {
        name: value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        for name, value in asked.items()
    }


def register(preset: PipelineSpec) -> list[str]:
    """Register every deployment at the server of the environment; return their names.

    Raises
    ------
    McvrpError
        If the server refuses one.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        _make_pool(client)
        listed = [_register(client, deployment, preset) for deployment in deployments()]
        _remove_others(client, set(listed))
    return listed


def _make_pool(client: SyncPrefectClient) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(
        name=POOL, type="process", base_job_template=template, description="Where runs of mcvrp are executed"
    )
    try:
        client.create_work_pool(pool)
    except ObjectAlreadyExists:
        return  # an administrator may have changed it


def _register(client: SyncPrefectClient, deployment: Deployment, preset: PipelineSpec) -> str:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyOptions
    from prefect.utilities.callables import parameter_schema

    flow = deployment.flow()
    full_name = f"{flow.name}/{deployment.name}"
    limit = ConcurrencyLimitConfig.model_validate(deployment.concurrency) if deployment.concurrency else None
    options = None
    if limit:
        options = ConcurrencyOptions(
            collision_strategy=limit.collision_strategy, grace_period_seconds=limit.grace_period_seconds
        )
    values = {**first_values(flow, preset), **deployment.parameters}
    client.create_deployment(
        flow_id=client.create_flow(flow),
        name=deployment.name,
        entrypoint=deployment.module_path,
        description=deployment.description,
        tags=sorted({TAG, *deployment.tags}),
        work_pool_name=POOL,
        job_variables={"command": COMMAND},
        parameters={name: value for name, value in values.items() if name in flow.parameters.properties},
        parameter_openapi_schema=parameter_schema(flow.fn).model_dump_for_openapi(),
        enforce_parameter_schema=True,
        concurrency_limit=limit.limit if limit else None,
        concurrency_options=options,
        schedules=list(_schedules(client, full_name, deployment)),
    )
    return full_name


def _schedules(
    client: SyncPrefectClient, full_name: str, deployment: Deployment
) -> Iterator[DeploymentScheduleCreate]:
    """Yield the schedules of prefect.yaml; of one that the server knows, as it stands there."""
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import construct_schedule
    from prefect.exceptions import ObjectNotFound

    try:
        there = client.read_deployment_by_name(full_name).schedules
    except ObjectNotFound:
        there = []
    known = {schedule.slug: schedule for schedule in there}
    ours = {str(entry.get("slug", k)): entry for k, entry in enumerate(deployment.schedules)}
    for schedule in there:
        yield DeploymentScheduleCreate.model_validate(
            schedule.model_dump(include={"schedule", "active", "parameters", "slug", "max_scheduled_runs"})
        )
    for slug, entry in ours.items():
        if slug not in known:
            when = {key: entry.get(key) for key in ("cron", "interval", "rrule", "anchor_date", "timezone")}
            yield DeploymentScheduleCreate(
                schedule=construct_schedule(**when),
                active=entry.get("active", True),
                parameters=entry.get("parameters") or {},
                slug=slug,
            )


def _remove_others(client: SyncPrefectClient, listed: set[str]) -> None:
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    for found in client.read_deployments(deployment_filter=ours):
        flow = client.read_flow(found.flow_id)
        if found.work_pool_name == POOL and f"{flow.name}/{found.name}" not in listed:
            client.delete_deployment(found.id)


def main(arguments: Sequence[str] | None = None) -> int:
    """Register at $PREFECT_API_URL with the values of --preset; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mcvrp.flows.server.deployments", description=__doc__)
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args(arguments)
    settings.prepare(verbose=False)
    with terminal():
        try:
            for name in register(load_preset(options.preset, options.overrides)):
                sys.stdout.write(f"{name}\n")
        except McvrpError as error:
            logger.error("mcvrp: %s", one_line(error))
            return error.exit_code
    return 0


# A message when a run fails

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


if __name__ == "__main__":
    sys.exit(main())
