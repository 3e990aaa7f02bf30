"""Program of a rank on one machine: `python -m mcvrp.tasks.train.ranks.rank JOB EVENTS LAUNCHER`.

EVENTS is the pipe for its events, one JSON document per line; PyTorch's launcher, the process LAUNCHER, keeps
what is printed, and reads the error that ends it from a file (`record`).
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from torch.distributed.elastic.multiprocessing.errors import record

from mcvrp.tasks.support.processes import die_with_parent
from mcvrp.tasks.train.job import encode
from mcvrp.tasks.train.trainer import run_rank


@record
def main() -> int:
    """Train as the job file says; return the exit code."""
    die_with_parent(int(sys.argv[3]))
    # The launcher's own temporary file, which no other user can have written.
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    with open(sys.argv[2], "w", buffering=1) as events:
        rank = int(os.environ["RANK"])
        error = run_rank(job, rank, job.cores, lambda event: print(encode(event), file=events))
    return error.exit_code if error else 0


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    sys.stderr.flush()
    os._exit(code or 0)  # skips exit handlers of libraries, whose threads may abort the process
