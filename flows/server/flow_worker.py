"""Type of Prefect's process worker that runs our flows and nothing else, whatever the server asks of it.

Prefect's own would run the command that a run, its deployment or the pool names, and for hooks load the
code that the deployment pulls in: whoever can open the UI could run any program as the worker's user.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from typing import Any, Self

from prefect import Flow
from prefect.workers import process
from pydantic import model_validator

from mcvrp.flows.server.dead_runs import end_tasks_of_dead_runs
from mcvrp.flows.server.deployments import COMMAND
from mcvrp.model.errors import McvrpError


class _OurCommand(process.ProcessJobConfiguration):
    """What the worker does for a run: our command in the environment of the worker, and in its own folder."""

    @model_validator(mode="after")
    def _no_other(self) -> Self:
        others = {"command": self.command != COMMAND, "env": self.env, "working_dir": self.working_dir}
        if refused := [name for name, other in others.items() if other]:
            raise McvrpError(
                f"job variable {refused[0]} is refused: this worker runs `{COMMAND}` in its own environment; "
                "run `python -m mcvrp.flows.server.deployments`, which puts pool and deployments right"
            )
        # this Python, also where its folder is not on the PATH
        self.command = f"{shlex.quote(sys.executable)} {COMMAND.partition(' ')[2]}"
        return self


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that there is a worker of this type: we take its place

    class FlowWorker(process.ProcessWorker):
        """Prefect's process worker, with `_OurCommand`, that ends task runs of runs that were killed."""

        job_configuration = _OurCommand

        async def sync_with_backend(self) -> None:
            """Do what Prefect does as the worker starts and twice a minute, and look for such task runs."""
            await super().sync_with_backend()
            await end_tasks_of_dead_runs(self.client)


async def _without_hooks(*_: Any, **__: Any) -> Flow[Any, Any]:
    """Return a flow that has no hooks: those of ours are for the process of a run."""
    return Flow(lambda: None, name="without-hooks")


# of Prefect's own, for hooks, which would load what the deployment names
process.load_flow_from_flow_run = _without_hooks  # type: ignore[attr-defined]
