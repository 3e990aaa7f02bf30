"""One run of a deployment, in a process of its own that ends with the worker that started it.

Prefect's own engine, `python -m prefect.engine`, would go on when its worker is killed, beside
the run that is started in its place. And it would run whatever code a deployment names.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
from mcvrp.flows.server.deployments import deployments
from mcvrp.flows.server.interrupt import stopping_in_time
from mcvrp.model.errors import shown
from mcvrp.tasks.support.processes import die_with_parent

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun, State

_OTHER_CODE = (
    "its deployment names other code than the flows of mcvrp, or pulls in some: "
    "register it with `python -m mcvrp.flows.server.deployments`"
)


def main() -> None:
    """Run what the worker has put into the environment."""
    run_id = settings.worked_run()
    if run_id is None:
        sys.exit("mcvrp: a worker of Prefect starts this for a run: start one with `mcvrp ui`")
    die_with_parent()
    os.chdir(settings.folder())  # the worker gives each run an empty folder that goes with it
    settings.prepare(verbose=False)
    from prefect import flow_engine  # what is prepared, it reads when it is imported

    flow_engine.run_flow = partial(_run_flow, flow_engine.run_flow)
    flow_engine.exception_to_crashed_state = partial(_crashed, flow_engine.exception_to_crashed_state)  # type: ignore[attr-defined]
    from mcvrp.flows.server.outages import outlived, outliving_outages
    from mcvrp.flows.server.records import RECORDS
    from mcvrp.flows.server.server import draining

    with terminal(), stopping_in_time(), draining(), outliving_outages(waiting=True):
        settings.run_entrypoint(_entrypoint(UUID(run_id)))
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
        if outlived():
            RECORDS.verify()


def _run_flow(run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Do what ``run`` of Prefect does; a run that failed or is stopped says why in its state, in a sentence.

    Prefect would put a traceback below: asked for a result that there is not, it raises the error once
    more, and its ``error_logger`` is for what stops it. `stage` has logged those that are of use. The stages
    of a run come here, too, and say themselves what they return.
    """
    options.pop("error_logger", None)
    if refused := _refused(*args, **options):
        return refused
    return run(*args, **{"return_type": "state"} | options)


def _refused(flow: Flow[Any, Any], flow_run: FlowRun | None = None, **_: Any) -> State[Any] | None:
    """Fail ``flow_run``, which a worker was asked for, if ``flow`` does not take its parameters.

    Prefect would end the process before the run begins, and say of it that it has ended. A stage that
    another flow calls comes without a run.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import Failed

    given = flow_run.parameters if flow_run else None
    if flow_run is None or given is None:
        return None
    known, lacks = (
        flow.parameters.properties,
        [name for name in flow.parameters.required if name not in given],
    )
    if unknown := [name for name in given if name not in known]:
        message = f"there is no parameter {shown(unknown[0])}; {flow.name} knows: {', '.join(known)}"
    elif lacks:
        message = f"parameter {lacks[0]} is missing: give it with the others ({', '.join(known)})"
    else:
        return None
    state: State[Any] = Failed(message=message)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run.id, state, force=True)
    return state


async def _crashed(crashed: Callable[..., Awaitable[Any]], error: BaseException) -> Any:
    """Return the state that ``crashed`` of Prefect makes of ``error``; of a stop it says what to do."""
    from mcvrp.flows.server.dead_runs import CUT_OFF

    state = await crashed(error)
    return state if isinstance(error, Exception) else state.model_copy(update={"message": CUT_OFF})


def _entrypoint(run_id: UUID) -> str:
    """Return the flow of the run; end the run, and this process, where that is none of ours."""
    from prefect.client.orchestration import get_client  # not above: it reads the settings that are made here
    from prefect.states import Failed

    with get_client(sync_client=True) as client:
        run = client.read_flow_run(run_id)
        deployment = client.read_deployment(run.deployment_id) if run.deployment_id else None
        ours = {entry.entrypoint for entry in deployments()}
        if deployment and deployment.entrypoint in ours and not deployment.pull_steps:
            return deployment.entrypoint
        client.set_flow_run_state(run.id, Failed(message=_OTHER_CODE), force=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
