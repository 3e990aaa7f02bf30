"""Program of a rank on one machine: `python -m mcvrp.tasks.train.ranks.rank JOB`.

Standard output carries the events, one JSON document per line; everything else that is printed goes
to standard error. A rank exits on its own when the process that started it is gone.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from pathlib import Path

_POLL_SECONDS = 0.5


def main() -> int:
    """Train as the job file says; return the exit code."""
    _exit_with(os.getppid())
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # DeepSpeed logs to standard output

    # Imported only now: what is printed during the import must not reach the channel.
    from mcvrp.tasks.train.events import RankEvent, encode
    from mcvrp.tasks.train.trainer import run_rank

    def send(event: RankEvent) -> None:
        channel.write(encode(event) + "\n")

    # The launcher's own temporary file, which no other user can have written.
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    error = run_rank(job, int(os.environ["RANK"]), job.cores, send)
    return error.exit_code if error else 0


def _exit_with(parent: int) -> None:
    """Exit when the process ``parent`` has: its ranks may not survive it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    # In a thread, as the main one may be blocked in a collective.
    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    sys.stderr.flush()
    os._exit(code)  # skips exit handlers of libraries, whose threads may abort the process
