"""One run of a deployment, in a process of its own that ends with the worker that started it.

Prefect's own engine, `python -m prefect.engine`, would go on when its worker is killed, beside
the run that is started in its place.
"""

from __future__ import annotations

import os
import runpy

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import terminal
from mcvrp.flows.server.interrupt import stopping_in_time
from mcvrp.tasks.support.processes import die_with_parent


def main() -> None:
    """Run what the worker has put into the environment."""
    die_with_parent()
    os.chdir(settings.folder())  # the worker gives each run an empty folder that goes with it
    settings.prepare(verbose=False)
    with terminal(), stopping_in_time():
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
