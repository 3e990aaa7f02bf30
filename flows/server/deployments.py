"""`mcvrp ui`: a Prefect server, and the deployments that this process serves.

One deployment per stage, named like it: Prefect's runner executes their runs, each in a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, PREFECT_SERVER_API_AUTH_STRING
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel

from mcvrp.flows.config.preset import DEFAULT, load_preset
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.flows.config.stages import STAGES
from mcvrp.flows.server.server import configured_server, new_password, own_server, refusal_of
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.cities import city_names
from mcvrp.storage.layout import NIGHT_NAME
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.processes import adopt_orphans, kill_descendants
from mcvrp.tasks.support.progress import INTERRUPTED
from mcvrp.tasks.support.registry import offering

logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 10.0  # runs end in less
_POLL_SECONDS = 2.0  # Prefect's 10 would be noticed by a person who has pressed a button
# Runs at once; others wait. Days to route are independent of each other, and users wait for them.
_LIMITS = {"solve": 4}
_NIGHTLY = CronSchedule(cron="0 2 * * *", timezone="UTC")  # inactive until there are files of routes
_MAKING = {"pipeline", "city"}  # their forms name what is to be made
ZOMBIES = "mcvrp: runs that fell silent"
_RUN = "prefect.flow-run."
_ENDED = {_RUN + state for state in ("Completed", "Failed", "TimedOut", "Crashed", "Cancelled")}
# Three heartbeats of PREFECT_FLOWS_HEARTBEAT_FREQUENCY (`config.settings`).
SILENT = timedelta(seconds=90)


class _Runner(Runner):
    """Runner of Prefect that SIGTERM ends like Ctrl-C."""

    def handle_sigterm(self, *args: Any, **kwargs: Any) -> None:
        signal.raise_signal(signal.SIGINT)  # Prefect's own would warn that its `astop` was never awaited


async def until_cancelled(service: Coroutine[Any, Any, None], again: float = _CANCEL_SECONDS) -> None:
    """Run ``service``, and cancel it each ``again`` seconds once this is cancelled: Prefect may lose one."""
    task = asyncio.create_task(service)
    try:
        await asyncio.wait([task])
        await task
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=again)


def serve_stages(preset: str | None, overrides: Sequence[str], store: Store, port: int) -> None:
    """Serve until Ctrl-C or SIGTERM; McvrpError if the server does not answer or refuses a deployment.

    Forms have the values of ``preset`` with ``overrides``; without both they keep those that they have, at
    first the demo's. ``store`` is the store that runs use by default.
    """
    spec = load_preset(preset or DEFAULT, overrides) if preset or overrides else None
    os.environ["MCVRP_STORE"] = store.uri  # of the runs, which inherit the environment
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script that starts it by & has it ignored
    adopt_orphans(False)  # what runs leave would stay as zombies for as long as the UI
    with _server(port) as page:
        try:
            end_silent_runs()
            served = [deployment(name, spec, store) for name in STAGES]
            # Schedules stay as they are: runs that were due meanwhile begin when the UI is started again.
            runner = _Runner(pause_on_shutdown=False, query_seconds=_POLL_SECONDS)
            for each in served:
                runner.add_deployment(each)
            logger.info("Prefect: %s (Ctrl-C stops it)", page)
            asyncio.run(until_cancelled(runner.start()))
        except Exception as error:
            raise refusal_of(error) or error from None


@contextmanager
def _server(port: int) -> Iterator[str]:
    """Yield how to open the UI of the server of PREFECT_API_URL, or of one that is started on ``port``."""
    if PREFECT_API_URL.value():
        yield configured_server().removesuffix("/api") + "/"
        return
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()  # address already in use
        raise McvrpError(f"port {port}: {why}: stop what uses it, or give --port") from None
    page, own = f"http://127.0.0.1:{port}/", PREFECT_SERVER_API_AUTH_STRING.value()
    password = own or new_password()
    path, stopping = PREFECT_HOME.value() / f"mcvrp-server-{port}.log", threading.Event()
    path.parent.mkdir(parents=True, exist_ok=True)

    def watch() -> None:
        code = process.wait()
        if not stopping.is_set():
            what = "mcvrp: the Prefect server ended (exit code %d, log: %s): start the UI again"
            logger.error(what, code, path)
            kill_descendants()
            os._exit(IncompleteError.exit_code)  # sys.exit would end this thread alone

    with path.open("w+", encoding="utf-8") as log, own_server(port, log, password=password) as process:
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield page if own else f"{page} password {password}"
        finally:
            stopping.set()


def deployment(name: str, preset: PipelineSpec | None, store: Store) -> RunnerDeployment:
    """Return the deployment of the stage ``name``, its form filled in from ``preset``.

    Without one it keeps its parameters, at first those of the demo's preset. Schedules are those of the
    server if it knows the deployment: they may have been changed in the UI. Forms offer names of ``store``.
    """
    flow: Flow[Any, Any] = STAGES[name].load_flow()  # type: ignore[assignment]
    schedules, paused = [], False
    parameters = first_values(name, preset or load_preset(DEFAULT))
    if name == "nightly":
        schedules = [DeploymentScheduleCreate(schedule=_NIGHTLY, slug="nightly", active=False)]
    with get_client(sync_client=True) as client, contextlib.suppress(ObjectNotFound):
        stored = client.read_deployment_by_name(f"{name}/{name}")
        kept = {"schedule", "active", "parameters", "slug", "max_scheduled_runs"}
        documents = [schedule.model_dump(include=kept) for schedule in stored.schedules]
        schedules, paused = list(map(DeploymentScheduleCreate.model_validate, documents)), stored.paused
        parameters = parameters if preset else stored.parameters
    limit = ConcurrencyLimitConfig(
        limit=_LIMITS.get(name, 1), collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
    )
    with offering({} if name in _MAKING else names_in(store)):
        made = flow.to_deployment(
            name,
            parameters=parameters,
            schedules=schedules,
            paused=paused,
            concurrency_limit=limit,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
    return cast(RunnerDeployment, made)  # a coroutine only in an asynchronous context


def first_values(name: str, preset: PipelineSpec) -> dict[str, Any]:
    """Return the initial values of the form of the stage ``name``: its parameters in ``preset``."""
    return {
        field: value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        for field, value in STAGES[name].asks(preset).items()
    }


def names_in(store: Store) -> dict[str, list[str]]:
    """Return the names that forms offer, by folder of ``store``, without datasets of nights."""
    datasets = [name for name in store.folders("labels") if not NIGHT_NAME.fullmatch(name)]
    return {"cities": city_names(store), "labels": datasets, "models": store.folders("models")}


def end_silent_runs(within: timedelta = SILENT) -> None:
    """Have the server end runs that send no heartbeat ``within`` a time: killed, or not begun.

    As in Prefect's documentation: "Detect zombie flows".
    """
    automation = AutomationCore(
        name=ZOMBIES,
        description="Marks runs as crashed whose process was killed: they no longer send heartbeats.",
        trigger=EventTrigger(
            match=ResourceSpecification({"prefect.resource.id": f"{_RUN}*"}),
            for_each={"prefect.resource.id"},
            after={f"{_RUN}heartbeat", f"{_RUN}Submitting"},
            expect={f"{_RUN}heartbeat", *_ENDED},
            posture=Posture.Proactive,
            within=within,
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=INTERRUPTED)],
    )
    with get_client(sync_client=True) as client:
        if not client.read_automations_by_name(ZOMBIES):
            client.create_automation(automation)
