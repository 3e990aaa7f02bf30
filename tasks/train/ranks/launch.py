"""Launcher of the ranks of a phase on this machine: PyTorch's (torchrun's), in this process."""

from __future__ import annotations

import contextvars
import logging
import math
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mcvrp.model.errors import McvrpError
from mcvrp.shared_array import dumps
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.processes import environment
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import (
    RankEvent,
    RankJob,
    Refused,
    Started,
    Warned,
    decode,
    ranks_died,
)
from mcvrp.tasks.train.resources import require_cores

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

logger = logging.getLogger(__name__)

_STOP_SECONDS = 3  # from SIGTERM to SIGKILL of a rank
# PyTorch would handle those of Ctrl-C and of cancelled runs, and not restore their handlers: another one.
_UNUSED_SIGNAL = "SIGUSR2"


def run_local(job: RankJob, progress: Progress) -> None:
    """Train the phase of ``job`` with ``job.ranks`` processes of this machine.

    The ranks end with this process, and when one of them fails. McvrpError if there are fewer cores (or
    GPUs) than ranks, or a rank ended with an error for the user; RanksDiedError, with the last checkpoint and
    the log, if a rank failed or was killed.
    """
    require_cores(job.ranks, job.cores)
    with tempfile.TemporaryDirectory(prefix="mcvrp-train-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        failed, refusal = _train(job, progress, folder)
        if refusal:  # an error for the user, to which the logs add nothing
            raise refusal
        if failed:
            raise ranks_died(job, _reason(failed), _kept_log(job, folder))


def follow_event(job: RankJob, event: RankEvent, progress: Progress) -> McvrpError | None:
    """Show one event of a rank; return the error if it is a refusal.

    LeaseLost if another process has taken over the run: one on a machine that slept or was cut off stops.
    """
    # Checked here rather than by the ranks: the heartbeat that renews the lease is in this process.
    job.lease.check()
    match event:
        case Started():
            progress.begin()
        case StepMetrics():
            losses = [f"{x:.3f}" for x in (event.problem_loss, event.solution_loss) if not math.isnan(x)]
            parts = [f"loss {' + '.join(losses)}"] if losses else []
            if not math.isnan(event.sampled_cost):
                parts.append(f"samples cost {event.sampled_cost:,.4g}")
            progress.update(event.step, ", ".join([*parts, f"{event.tokens_per_second:,.0f} tokens/s"]))
        case Warned(message):
            logger.warning(message)
        case Refused():
            return event.error()
    return None


def _train(
    job: RankJob, progress: Progress, folder: Path
) -> tuple[ChildFailedError | None, McvrpError | None]:
    """Run the ranks to their end; return PyTorch's error if one failed, and the refusal if there was one."""
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in ("torch.distributed.elastic", "torchelastic-events-null"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our error says the same
    job_file, events = folder / "job.pickle", folder / "events"
    job_file.write_bytes(dumps(job))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=job.ranks,
        run_id=job.phase,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,  # they are restarted by the phase, which knows the last checkpoint
        logs_specs=DefaultLogsSpecs(log_dir=str(folder), redirects=Std.ALL),
        signals_to_handle=_UNUSED_SIGNAL,
        shutdown_timeout=_STOP_SECONDS,
    )
    os.mkfifo(events)
    reader = os.open(events, os.O_RDONLY | os.O_NONBLOCK)  # a blocking one would wait for the first rank
    writer = os.open(events, os.O_WRONLY)  # the events end when it is closed and all ranks have ended
    os.set_blocking(reader, True)
    context, failed = contextvars.copy_context(), None  # which has the listeners of the caller's progress
    with environment(_environment(job)), ThreadPoolExecutor(1) as pool:
        following = pool.submit(context.run, _follow, job, os.fdopen(reader), progress)
        try:
            elastic_launch(config, sys.executable)(*_arguments(job_file, events))
        except ChildFailedError as error:
            failed = error
        except UnboundLocalError as error:  # hides an interrupt that arrives while PyTorch takes the time
            raise error.__context__ or error from None
        finally:
            os.close(writer)
    return failed, following.result()


def _follow(job: RankJob, lines: TextIO, progress: Progress) -> McvrpError | None:
    """Follow the events to the last one; return the refusal, if there was one.

    If it raises an error, as of a lost lease, the next report of a rank fails, and the rank with it.
    """
    refusal = None
    with lines:
        for line in lines:
            refusal = follow_event(job, decode(line), progress) or refusal
    return refusal


def _reason(failed: ChildFailedError) -> str:
    """Return why the first rank failed: the others fail because of it."""
    rank, failure = failed.get_first_failure()
    if failure.exitcode < 0:
        return f"rank {rank} was killed by {failure.signal_name()}"
    if Path(failure.error_file).exists():
        message = failure.message["message"] if isinstance(failure.message, dict) else failure.message
        return str(message).splitlines()[0]
    return f"exit code {failure.exitcode} of rank {rank}"


def _kept_log(job: RankJob, folder: Path) -> str:
    """Return the path of a file with the logs of all ranks, which outlives ``folder``: an error names it."""
    descriptor, path = tempfile.mkstemp(prefix=f"mcvrp-{job.spec.run}-{job.phase}-", suffix=".log")
    with os.fdopen(descriptor, "w") as kept:
        for log in sorted(folder.rglob("std*.log")):
            kept.write(f"rank {log.parent.name}, {log.name}:\n{log.read_text(errors='replace')}\n")
    return path


def _arguments(job_file: Path, events: Path) -> list[str]:
    return ["-m", "mcvrp.tasks.train.ranks.rank", str(job_file), str(events), str(os.getpid())]


def _environment(job: RankJob) -> dict[str, str]:
    return {
        # `-m` puts the working directory first on the path: a user's json.py would hide Python's.
        "PYTHONSAFEPATH": "1",
        # Each rank has its share of the cores, not all. Threads that spin while waiting take the cores from
        # each other on a busy machine.
        "OMP_NUM_THREADS": str(max(1, job.cores // job.ranks)),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
