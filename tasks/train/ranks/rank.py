"""The program that a rank on one machine runs: `python -m mcvrp.tasks.train.ranks.rank JOB`.

Standard output belongs to the reports, one JSON document a line; whatever else is printed goes
to standard error. A rank ends by itself when the process that started it has.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_POLL_SECONDS = 0.5


def main() -> int:
    """Train as the job file says; return the exit code."""
    _end_with(os.getppid())
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # DeepSpeed logs to standard output

    def send(event: Mapping[str, Any]) -> None:
        channel.write(json.dumps(event) + "\n")

    # Imported only now: what it prints while it is imported must not reach the channel.
    from mcvrp.tasks.train.loop import take_part

    # The launcher's own temporary file: nobody else can have written it.
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    error = take_part(job, int(os.environ["RANK"]), job.cores, send)
    return error.exit_code if error else 0


def _end_with(parent: int) -> None:
    """End this process when ``parent`` has: a rank may be waiting for the others when it happens."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    # A thread, as the main one may be blocked in an exchange that nobody answers.
    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    sys.stderr.flush()
    os._exit(code)  # not through the libraries' own farewells, whose threads may abort the process
