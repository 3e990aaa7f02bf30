"""Process of one deployed run: executes a flow of mcvrp and ends with the worker that started it.

`python -m prefect.engine`, which workers of Prefect start, would run whatever code a deployment names, and
would survive a killed worker, beside the run that is started in its place.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
from mcvrp.flows.server.deployments import deployments
from mcvrp.flows.server.interrupt import stopping_in_time
from mcvrp.model.errors import reason, shown
from mcvrp.tasks.support.processes import die_with_parent

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun

    from mcvrp.flows.server.stage import StageFlow

# 17 minutes instead of one: no user is waiting, and the records are worth the delay
_CLIENT_RETRIES = 9


def main() -> None:
    """Execute the flow run that a worker has named in the environment."""
    run_id = settings.worked_run()
    if run_id is None:
        sys.exit("mcvrp: only a Prefect worker starts this program: start one with `mcvrp ui`")
    die_with_parent()
    os.chdir(settings.folder())  # the worker starts each run in an empty folder that is deleted afterwards
    settings.prepare(verbose=False)
    # imported after `prepare`: Prefect reads the environment when it is imported
    from prefect.engine import handle_engine_signals
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from mcvrp.flows.server.prefect_internals import listen_for_cancellation, lost_slots_tolerated
    from mcvrp.flows.server.records import Records
    from mcvrp.flows.server.server import draining

    retries = {PREFECT_CLIENT_MAX_RETRIES: max(_CLIENT_RETRIES, PREFECT_CLIENT_MAX_RETRIES.value())}
    with terminal(), stopping_in_time(), draining(), lost_slots_tolerated(), temporary_settings(retries):
        listen_for_cancellation()  # before flows are imported, which takes seconds
        # outside of Prefect's handler, whose logger is silent here: an error goes to the log of the worker
        if accepted := _load(UUID(run_id)):
            flow, run = accepted
            with handle_engine_signals(UUID(run_id)):
                records = Records()
                flow.run_deployed(run, records)
                if records.outage:
                    records.verify()


def _load(run_id: UUID) -> tuple[StageFlow[Any, Any], FlowRun] | None:
    """Return the flow and the run; None, once the run is set to Failed, if mcvrp does not execute it."""
    from httpx import HTTPError
    from prefect.client.orchestration import get_client
    from prefect.states import Failed

    from mcvrp.flows.server.stage import StageFlow

    try:
        with get_client(sync_client=True) as client:
            run = client.read_flow_run(run_id)
            stored = client.read_deployment(run.deployment_id) if run.deployment_id else None
            code = stored.entrypoint if stored and not stored.pull_steps else None
            flow = next((ours.flow() for ours in deployments() if ours.entrypoint == code), None)
            refusal = _wrong_parameters(flow, run.parameters) if flow else _OTHER_CODE
            if refusal:
                client.set_flow_run_state(run.id, Failed(message=refusal), force=True)
                return None
    except HTTPError as error:
        sys.exit(
            f"mcvrp: the Prefect server did not answer ({type(error).__name__}: {reason(error)}): check that "
            "it is running, then start the run again"
        )
    assert isinstance(flow, StageFlow)
    return flow, run


_OTHER_CODE = (
    "its deployment names other code than the flows of mcvrp, or has pull steps: "
    "register it with `python -m mcvrp.flows.server.deployments`"
)


def _wrong_parameters(flow: Flow[Any, Any], parameters: dict[str, Any]) -> str | None:
    # Prefect would end the process before the run begins, with a state that names no parameter. Values are
    # checked by the flow itself.
    known = flow.parameters.properties
    if unknown := [name for name in parameters if name not in known]:
        return f"there is no parameter {shown(unknown[0])}; {flow.name} knows: {', '.join(known)}"
    if missing := [name for name in flow.parameters.required if name not in parameters]:
        return f"parameter {missing[0]} is missing: give it with the others ({', '.join(known)})"
    return None


if __name__ == "__main__":
    main()
