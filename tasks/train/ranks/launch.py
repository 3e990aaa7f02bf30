"""Starting the ranks of a phase on this machine, and following them to their end."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.processes import last_error, start_group, stop_group
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankJob, ranks_died, refusal

logger = logging.getLogger(__name__)


def run_local(job: RankJob, progress: Progress) -> None:
    """Train the phase of ``job`` with ``job.ranks`` processes of this machine.

    Whatever happens to this process, the ranks end with it.

    Raises
    ------
    McvrpError
        If there are fewer cores than ranks, or a rank refused to go on; with what it said.
    RanksDiedError
        If a rank failed or was killed; names the last checkpoint and the log.
    """
    require_cores(job.ranks, job.cores)
    with tempfile.TemporaryDirectory(prefix="mcvrp-train-") as folder:
        job_file = Path(folder, "job.pickle")
        job_file.write_bytes(pickle.dumps(job))
        # Beside the folder: the log of a failure is named to the user, and has to outlive this call.
        descriptor, log = tempfile.mkstemp(prefix=f"mcvrp-{job.spec.run}-{job.phase}-", suffix=".log")
        with (
            os.fdopen(descriptor, "w") as stderr,
            start_group(
                _command(job.ranks, job_file, folder),
                env=_environment(job),
                stdout=subprocess.PIPE,
                stderr=stderr,
            ) as process,
        ):
            try:
                error = _follow(process, progress)
                code = process.wait()
            except (KeyboardInterrupt, McvrpError):
                Path(log).unlink(missing_ok=True)  # the ranks did nothing wrong
                raise
            finally:
                stop_group(process)
    if code == 0:
        Path(log).unlink(missing_ok=True)
        return
    if error:  # a sentence for the user, so that the log adds nothing
        Path(log).unlink(missing_ok=True)
        raise error
    raise ranks_died(job, _last_error(Path(log), code), log)


def require_cores(ranks: int, cores: int) -> None:
    """Raise McvrpError if this machine has fewer ``cores`` than ``ranks``."""
    if ranks > cores:
        raise McvrpError(f"train.ranks = {ranks}, this machine has {cores} cores: ask for {cores} or fewer")


def follow_event(event: Mapping[str, Any], progress: Progress) -> McvrpError | None:
    """Show one report of a rank; return the error when it is a refusal."""
    match event["event"]:
        case "preparing":
            progress.update(progress.done, f"labels of {event['done']} of {event['sizes']} sizes are here")
        case "started":
            progress.begin()
        case "step":
            losses = [event["problem_loss"], event["solution_loss"]]
            said = " + ".join(f"{loss:.3f}" for loss in losses if loss is not None)
            shown = [f"loss {said}"] if said else []
            if event.get("sampled_cost") is not None:
                shown.append(f"samples cost {event['sampled_cost']:,.4g}")
            progress.update(event["step"], ", ".join([*shown, f"{event['tokens_per_second']:,.0f} tokens/s"]))
        case "waiting" | "warning":
            logger.warning(event["message"])
    return refusal(event)


def _follow(process: subprocess.Popen[str], progress: Progress) -> McvrpError | None:
    error = None  # the last refusal; the ranks end by themselves after one
    assert process.stdout is not None
    for line in process.stdout:
        error = follow_event(json.loads(line), progress) or error
    return error


def _command(ranks: int, job_file: Path, folder: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    # It logs to a folder of its own even where it has nothing to log, and leaves it there.
    return [*launcher, f"--log-dir={folder}", "-m", "mcvrp.tasks.train.ranks.rank", str(job_file)]


def _environment(job: RankJob) -> dict[str, str]:
    threads = str(max(1, job.cores // job.ranks))  # else each rank would start one a core
    # Threads that spin while they wait take the cores from each other on a busy machine.
    # `-m` would put the working directory first, and a user's json.py before Python's.
    return {**os.environ, "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}


def _last_error(log: Path, code: int) -> str:
    if code < 0:  # the ranks ended because it did, whatever they say
        return f"its launcher was killed by {signal.Signals(-code).name}"
    return last_error(log.read_text(errors="replace")) or f"exit code {code}"
