"""Program of a rank on one machine: `python -m mcvrp.tasks.train.ranks.rank JOB`.

Standard output carries the events, one JSON document per line; everything else that is printed goes
to standard error. The kernel ends a rank with the process that started it (`start_group`).
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path


def main() -> int:
    """Train as the job file says; return the exit code."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # DeepSpeed logs to standard output

    # Imported only now: what is printed during the import must not reach the channel.
    from mcvrp.tasks.train.job import encode
    from mcvrp.tasks.train.trainer import run_rank

    # The launcher's own temporary file, which no other user can have written.
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    rank = int(os.environ["RANK"])
    error = run_rank(job, rank, job.cores, lambda event: print(encode(event), file=channel))
    return error.exit_code if error else 0


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    sys.stderr.flush()
    os._exit(code)  # skips exit handlers of libraries, whose threads may abort the process
