"""Program that starts a Prefect worker for the work pool of mcvrp, of the type in `flow_worker`.

Run it as `python -m mcvrp.flows.server.worker [OPTIONS OF prefect worker start]`.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from functools import partial

from mcvrp.flows.config.preflight import run_program
from mcvrp.flows.server.deployments import POOL

_PROGRAM = "python -m mcvrp.flows.server.worker"


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a worker with the options of `prefect worker start` but pool and type; return the exit code."""
    options = sys.argv[1:] if arguments is None else arguments
    return run_program(_PROGRAM, partial(_start, options), verbose=True)


def _start(options: Sequence[str]) -> None:
    # of the worker classes of a type, Prefect takes the one that was declared last
    from mcvrp.flows.server import flow_worker  # noqa: F401
    from mcvrp.flows.server.prefect_internals import no_flow_for_hooks

    sys.argv = ["prefect", "worker", "start", "--pool", POOL, "--type", "process", *options]
    with no_flow_for_hooks():
        runpy.run_module("prefect", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.exit(main())
