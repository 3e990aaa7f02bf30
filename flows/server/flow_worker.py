"""Prefect's process worker, restricted to the flows of mcvrp, whatever the server asks of it.

Prefect's own runs the command that a run, its deployment or the work pool names: anybody who can open the UI
could run any program as the user of the worker.
"""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from typing import Self

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.workers import process
from pydantic import model_validator

from mcvrp.flows.server.automations import CUT_OFF, SILENT, end_dead_commands, end_tasks_of_dead_runs
from mcvrp.flows.server.deployments import COMMAND
from mcvrp.model.errors import McvrpError

_BEGAN = time.monotonic()


class _OurCommand(process.ProcessJobConfiguration):
    """Job configuration that allows our command alone, in the environment of the worker and a new folder."""

    @model_validator(mode="after")
    def _no_other(self) -> Self:
        others = {"command": self.command != COMMAND, "env": self.env, "working_dir": self.working_dir}
        if refused := [name for name, other in others.items() if other]:
            raise McvrpError(
                f"job variable {refused[0]} is refused: this worker runs `{COMMAND}` in its own environment; "
                "run `python -m mcvrp.flows.server.deployments`, which puts pool and deployments right"
            )
        # the Python of this worker, even if PATH does not lead to it
        self.command = f"{shlex.quote(sys.executable)} {COMMAND.partition(' ')[2]}"
        return self


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Prefect warns that this class replaces its own of the same type

    class FlowWorker(process.ProcessWorker):
        """Process worker with `_OurCommand` that ends killed commands and task runs of killed runs."""

        job_configuration = _OurCommand

        async def sync_with_backend(self) -> None:
            """Do what Prefect does at the start and twice a minute, and end such runs."""
            await super().sync_with_backend()
            if time.monotonic() > _BEGAN + SILENT.total_seconds():
                await end_dead_commands(self.client)
            await end_tasks_of_dead_runs(self.client)

        async def _propose_crashed_state(
            self, flow_run: FlowRun, message: str, client: PrefectClient | None = None
        ) -> None:
            """Add to Prefect's message on a killed process how to resume."""
            if "non-zero status code -" in message:  # killed by a signal
                message = f"{CUT_OFF} ({message})"
            await super()._propose_crashed_state(flow_run, message, client)
