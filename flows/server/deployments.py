"""Registration of the deployments of prefect.yaml: forms, initial values, limits and schedules.

Run it as `python -m mcvrp.flows.server.deployments`. `prefect deploy --all` registers the same deployments.
In addition, this program takes any preset, deletes deployments that prefect.yaml no longer lists,
keeps schedules that were changed in the UI, and runs in any folder.
"""

from __future__ import annotations

import argparse
import functools
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import yaml
from pydantic import BaseModel, TypeAdapter

from mcvrp.flows.config.logs import lines
from mcvrp.flows.config.preflight import run_program
from mcvrp.flows.config.preset import DEFAULT, Preset, load_preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import city_names
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.text import listed

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.actions import DeploymentScheduleCreate

logger = logging.getLogger(__name__)

_PROGRAM = "python -m mcvrp.flows.server.deployments"
POOL = "mcvrp"
TAG = "mcvrp"  # of deployments that are deleted once prefect.yaml no longer lists them
COMMAND_TAG = "mcvrp-command"  # of runs that no worker executes
COMMAND = "python -m mcvrp.flows.server.engine"
# Without variables: no deployment and no run can choose a command or an environment.
_TEMPLATE: dict[str, Any] = {
    "job_configuration": {"command": COMMAND, "stream_output": True},
    "variables": {"type": "object", "properties": {}, "additionalProperties": False},
}


@dataclass(frozen=True)
class Deployment:
    """An entry of prefect.yaml."""

    name: str
    entrypoint: str
    description: str = ""
    tags: tuple[str, ...] = ()
    concurrency_limit: Mapping[str, Any] | None = None
    schedules: tuple[Mapping[str, Any], ...] = ()

    def flow(self) -> Flow[Any, Any]:
        """Import the flow of the entrypoint."""
        from prefect.flows import load_flow_from_entrypoint

        return load_flow_from_entrypoint(self.entrypoint, use_placeholder_flow=False)


def prefect_yaml() -> Path:
    """Return the path of the file, which is part of the package."""
    return Path(__file__).parents[1] / "prefect.yaml"


def deployments() -> list[Deployment]:
    """Return the deployments of prefect.yaml."""
    entries = yaml.safe_load(prefect_yaml().read_text(encoding="utf-8"))["deployments"]
    return TypeAdapter(list[Deployment]).validate_python(entries)


def first_values(flow: Flow[Any, Any], preset: PipelineSpec) -> dict[str, Any]:
    """Return the initial values of the form of ``flow``: its parameters in ``preset``."""
    return {
        name: value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        for name, value in STAGES[flow.name].asks(preset).items()
    }


@functools.cache  # `prefect deploy --all` runs the build steps once per deployment
def prepare(preset: str) -> dict[str, Any]:
    """Prepare the server of the environment for the deployments; a build step of prefect.yaml.

    Returns the initial values of each form, by the name of the deployment.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        _prepare(client)
    spec = load_preset(preset)
    return {deployment.name: first_values(deployment.flow(), spec) for deployment in deployments()}


def register(preset: PipelineSpec | None) -> list[str]:
    """Register all deployments with the server of the environment; return their names.

    Without a preset those of the server stay as they are; a server without any gets the demo's.

    McvrpError if the environment names no server, or that does not answer.
    """
    from prefect.client.orchestration import get_client

    from mcvrp.flows.server.server import configured_server

    if configured_server() is None:  # Prefect would start one, and end it
        raise McvrpError("PREFECT_API_URL is not set: set it to the address of a Prefect server")
    with get_client(sync_client=True) as client:
        _prepare(client)
        if preset is None and (stored := list(_stored(client))):
            return stored
        preset = preset or load_preset(DEFAULT)
        listed = [_register(client, deployment, preset) for deployment in deployments()]
        for name, id in _stored(client).items():
            if name not in listed:
                client.delete_deployment(id)
    return listed


def _prepare(client: SyncPrefectClient) -> None:
    from mcvrp.flows.server.automations import end_dead_runs

    _make_pool(client)
    end_dead_runs(client)


def _make_pool(client: SyncPrefectClient) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists

    description = "Processes on the machines of the mcvrp workers."
    pool = WorkPoolCreate(name=POOL, type="process", base_job_template=_TEMPLATE, description=description)
    try:
        client.create_work_pool(pool)
    except ObjectAlreadyExists:  # other settings (limits, paused) are up to the administrator
        client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=_TEMPLATE))


def _register(client: SyncPrefectClient, deployment: Deployment, preset: PipelineSpec) -> str:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyOptions
    from prefect.utilities.callables import parameter_schema

    flow = deployment.flow()
    full_name = f"{flow.name}/{deployment.name}"
    limit = options = None
    if deployment.concurrency_limit:
        limit = ConcurrencyLimitConfig.model_validate(deployment.concurrency_limit)
        options = ConcurrencyOptions.model_validate(limit.model_dump(exclude={"limit"}))
    client.create_deployment(
        flow_id=client.create_flow(flow),
        name=deployment.name,
        version=flow.version,
        entrypoint=deployment.entrypoint,
        description=deployment.description,
        tags=sorted({TAG, *deployment.tags}),
        work_pool_name=POOL,
        parameters=first_values(flow, preset),
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
    """Yield the schedules of the server as they are, and those of prefect.yaml that it does not have."""
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import construct_schedule
    from prefect.exceptions import ObjectNotFound

    try:
        stored = client.read_deployment_by_name(full_name).schedules
    except ObjectNotFound:
        stored = []
    slugs = {schedule.slug for schedule in stored}
    for schedule in stored:  # the server deletes those that it is not sent
        yield DeploymentScheduleCreate.model_validate(
            schedule.model_dump(include={"schedule", "active", "parameters", "slug", "max_scheduled_runs"})
        )
    for k, entry in enumerate(deployment.schedules):
        if (slug := str(entry.get("slug", k))) not in slugs:
            when = {key: entry.get(key) for key in ("cron", "interval", "rrule", "anchor_date", "timezone")}
            yield DeploymentScheduleCreate(
                schedule=construct_schedule(**when),
                active=entry.get("active", True),
                parameters=entry.get("parameters") or {},
                slug=slug,
            )


def _stored(client: SyncPrefectClient) -> dict[str, UUID]:
    """Return the ids of the deployments of mcvrp on the server, by name."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    found = client.read_deployments(deployment_filter=ours)
    of_pool = [deployment for deployment in found if deployment.work_pool_name == POOL]
    return {f"{client.read_flow(each.flow_id).name}/{each.name}": each.id for each in of_pool}


def _chosen(preset: str | None, overrides: Sequence[str], store: Store | None) -> PipelineSpec | None:
    """Return the spec of ``preset``, or of the last one of ``store``; None if that is unfit, with a warning.

    It is unfit if the store has several cities, since it may be of another one than the scheduled nights are.
    `mcvrp label` accepts a preset with two sections, which must not stop a worker that is started again.
    """
    try:
        if store and not preset and len(cities := city_names(store)) > 1:
            raise McvrpError(f"the store has several cities, {listed(cities)}: name a preset")
        return Preset.chosen(preset, store).spec(overrides)
    except StoreError:
        raise
    except McvrpError as error:
        if preset or overrides:
            raise
        first, *others = lines(error)
        more = f" (and {len(others)} more)" if others else ""
        logger.warning(
            "mcvrp: %s%s: the deployments stay as they are, or have the values of %s on a new server; "
            "select a complete preset with --preset",
            *(first, more, DEFAULT),
        )
        return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Register the deployments at $PREFECT_API_URL; return the exit code."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=__doc__)
    parser.add_argument("--preset", help="default: laptop")
    parser.add_argument("--last-of", metavar="STORE", help="default: the last preset used on STORE")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    options = parser.parse_args(arguments)

    def work() -> None:
        store = Store.at(options.last_of) if options.last_of else None
        names = register(_chosen(options.preset, options.overrides, store))
        sys.stdout.writelines(f"{name}\n" for name in names)

    return run_program(_PROGRAM, work)


if __name__ == "__main__":
    sys.exit(main())
