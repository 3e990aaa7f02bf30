"""Launcher of the ranks of a phase on this machine: starts them and follows them to their end."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.shared_array import dumps
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.processes import free_port, last_error, start_group, stop_group
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.scratch import scratch_folder
from mcvrp.tasks.train.job import (
    Preparing,
    RankEvent,
    RankJob,
    Refused,
    Saved,
    Started,
    Warned,
    decode,
    ranks_died,
)
from mcvrp.tasks.train.resources import require_cores

logger = logging.getLogger(__name__)

_NOTICE_SECONDS = 0.5  # until the end of a rank, with which others fail, is noticed on a busy machine


def run_local(job: RankJob, progress: Progress) -> None:
    """Train the phase of ``job`` with ``job.ranks`` processes of this machine.

    The ranks end with this process, and when one of them fails. McvrpError if there are fewer cores (or
    GPUs) than ranks, or a rank ended with an error for the user; RanksDiedError, with the last checkpoint and
    the log, if a rank failed or was killed.
    """
    require_cores(job.ranks, job.cores)
    with scratch_folder("train") as folder:
        logs = [Path(folder, f"rank-{rank}.log") for rank in range(job.ranks)]
        deaths, error = _train(job, progress, Path(folder, "job.pickle"), logs)
        if error:  # an error for the user, to which the logs add nothing
            raise error
        if deaths:
            # Outside of the folder: the error names the log to the user, so it has to outlive this call.
            descriptor, log_path = tempfile.mkstemp(
                prefix=f"mcvrp-{job.spec.run}-{job.phase}-", suffix=".log"
            )
            texts = [log.read_text(errors="replace") for log in logs]
            with os.fdopen(descriptor, "w") as log_file:
                log_file.writelines(f"rank {rank}:\n{text}\n" for rank, text in enumerate(texts))
            rank, code = deaths[0]  # the others failed because of it
            if code < 0:
                reason = f"rank {rank} was killed by {signal.Signals(-code).name}"
            else:
                reason = last_error(texts[rank]) or f"exit code {code} of rank {rank}"
            raise ranks_died(job, reason, log_path)


def group_environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables with which torch.distributed makes a process ``rank`` of ``ranks``."""
    own, all_ranks = str(rank), str(ranks)
    group = {"RANK": own, "LOCAL_RANK": own, "WORLD_SIZE": all_ranks, "LOCAL_WORLD_SIZE": all_ranks}
    return group | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def follow_event(job: RankJob, event: RankEvent, progress: Progress) -> McvrpError | None:
    """Show one event of a rank; return the error if it is a refusal.

    LeaseLost if another process has taken over the run: one on a machine that slept or was cut off stops.
    """
    # Checked here rather than by the ranks: the heartbeat that renews the lease is in this process.
    job.lease.check()
    match event:
        case Preparing(done, sizes):
            progress.update(progress.done, f"labels of {done} of {sizes} sizes are here")
        case Started():
            progress.begin()
        case StepMetrics():
            losses = [f"{x:.3f}" for x in (event.problem_loss, event.solution_loss) if not math.isnan(x)]
            parts = [f"loss {' + '.join(losses)}"] if losses else []
            if not math.isnan(event.sampled_cost):
                parts.append(f"samples cost {event.sampled_cost:,.4g}")
            progress.update(event.step, ", ".join([*parts, f"{event.tokens_per_second:,.0f} tokens/s"]))
        case Saved(step):
            progress.saved = step
        case Warned(message):
            logger.warning(message)
        case Refused():
            return event.error()
    return None


def _train(
    job: RankJob, progress: Progress, job_file: Path, logs: Sequence[Path]
) -> tuple[list[tuple[int, int]], McvrpError | None]:
    """Run the ranks to their end; return (rank, exit code) of failures, in order, and the refusal."""
    job_file.write_bytes(dumps(job))
    environment, port, deaths, error = _environment(job), free_port(), [], None
    reader, writer = os.pipe()
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(os.fdopen(reader))
        ranks: list[subprocess.Popen[str]] = []
        # This process closes its end of the pipe, so that the lines end when all ranks have.
        with os.fdopen(writer, "w") as channel:
            for rank, log in enumerate(logs):
                stderr = stack.enter_context(log.open("w"))
                own = environment | group_environment(rank, job.ranks, port)
                ranks.append(start_group(_command(job_file), env=own, stdout=channel, stderr=stderr))
                stack.callback(stop_group, ranks[-1])

        def watch(rank: int) -> None:
            if code := ranks[rank].wait():
                if code > 0 and job.ranks > 1:  # another may have been killed first, and be noticed last
                    time.sleep(_NOTICE_SECONDS)
                deaths.append((rank, code))
                for other in ranks:  # they may be blocked in a collective with it
                    other.kill()

        # One thread per rank: polling them in turn would not show which one failed first.
        watchers = [threading.Thread(target=watch, args=(rank,), daemon=True) for rank in range(job.ranks)]
        for watcher in watchers:
            watcher.start()
        for line in lines:
            error = follow_event(job, decode(line), progress) or error
        for watcher in watchers:
            watcher.join()
    return deaths, error


def _command(job_file: Path) -> list[str]:
    return [sys.executable, "-m", "mcvrp.tasks.train.ranks.rank", str(job_file)]


def _environment(job: RankJob) -> dict[str, str]:
    return {
        **os.environ,
        # `-m` puts the working directory first on the path: a user's json.py would hide Python's.
        "PYTHONSAFEPATH": "1",
        # Each rank has its share of the cores, not all. Threads that spin while waiting take the cores from
        # each other on a busy machine.
        "OMP_NUM_THREADS": str(max(1, job.cores // job.ranks)),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
