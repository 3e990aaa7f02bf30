"""Starting the ranks of a phase on this machine, and following them to their end."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.support.processes import free_port, last_error, start_group, stop_group
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.scratch import scratch_folder
from mcvrp.tasks.train.job import RankJob, ranks_died, refusal

logger = logging.getLogger(__name__)


def run_local(job: RankJob, progress: Progress) -> None:
    """Train the phase of ``job`` with ``job.ranks`` processes of this machine.

    Whatever happens to this process, the ranks end with it; when one fails, so do the others.

    Raises
    ------
    McvrpError
        If there are fewer cores than ranks, or a rank refused to go on; with what it said.
    RanksDiedError
        If a rank failed or was killed; names the last checkpoint and the log.
    """
    require_cores(job.ranks, job.cores)
    with scratch_folder("train") as folder:
        logs = [Path(folder, f"rank-{rank}.log") for rank in range(job.ranks)]
        deaths, error = _train(job, progress, Path(folder, "job.pickle"), logs)
        if error:  # a sentence for the user, so that the logs add nothing
            raise error
        if deaths:
            # Beside the folder: it is named to the user, and has to outlive this call.
            descriptor, kept = tempfile.mkstemp(prefix=f"mcvrp-{job.spec.run}-{job.phase}-", suffix=".log")
            with os.fdopen(descriptor, "w") as whole:
                whole.writelines(f"rank {rank}:\n{_said(log)}\n" for rank, log in enumerate(logs))
            rank, code = deaths[0]  # those after it have seen it go
            raise ranks_died(job, _why(rank, code, _said(logs[rank])), kept)


def require_cores(ranks: int, cores: int) -> None:
    """Raise McvrpError if this machine has fewer ``cores`` than ``ranks``."""
    if ranks > cores:
        raise McvrpError(f"train.ranks = {ranks}, this machine has {cores} cores: ask for {cores} or fewer")


def group_environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables by which a process is ``rank`` of so many ``ranks`` of this machine."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    values = {name: str(value) for name, value in (names | {"MASTER_PORT": port}).items()}
    return values | {"MASTER_ADDR": "127.0.0.1"}


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


def _train(
    job: RankJob, progress: Progress, job_file: Path, logs: Sequence[Path]
) -> tuple[list[tuple[int, int]], McvrpError | None]:
    """Start the ranks, follow them to their end, and return who failed, first who was first, with what code.

    And the last refusal that was reported.
    """
    job_file.write_bytes(pickle.dumps(job.for_ranks()))
    environment, port, deaths, error = _environment(job), free_port(), [], None
    reader, writer = os.pipe()
    with contextlib.ExitStack() as stack:
        reports = stack.enter_context(os.fdopen(reader))
        ranks: list[subprocess.Popen[str]] = []
        with os.fdopen(writer, "w") as channel:
            for rank, log in enumerate(logs):
                stderr = stack.enter_context(log.open("w"))
                own = environment | group_environment(rank, job.ranks, port)
                ranks.append(start_group(_command(job_file), env=own, stdout=channel, stderr=stderr))
                stack.callback(stop_group, ranks[-1])

        def watch(rank: int) -> None:
            if code := ranks[rank].wait():
                deaths.append((rank, code))
                for other in ranks:  # they may be waiting for it
                    other.kill()

        # A thread each: who asks them in turn does not learn which was the first.
        watchers = [threading.Thread(target=watch, args=(rank,), daemon=True) for rank in range(job.ranks)]
        for watcher in watchers:
            watcher.start()
        for line in reports:
            job.lease.check()  # a machine that slept or was cut off stops once another has taken over
            error = follow_event(json.loads(line), progress) or error
        for watcher in watchers:
            watcher.join()
    return deaths, error


def _command(job_file: Path) -> list[str]:
    return [sys.executable, "-m", "mcvrp.tasks.train.ranks.rank", str(job_file)]


def _environment(job: RankJob) -> dict[str, str]:
    threads = str(max(1, job.cores // job.ranks))  # else each rank would start one a core
    return {
        **os.environ,
        # `-m` would put the working directory first, and a user's json.py before Python's.
        "PYTHONSAFEPATH": "1",
        # Threads that spin while they wait take the cores from each other on a busy machine.
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def _said(log: Path) -> str:
    return log.read_text(errors="replace")


def _why(rank: int, code: int, said: str) -> str:
    if code < 0:
        return f"rank {rank} was killed by {signal.Signals(-code).name}"
    return last_error(said) or f"exit code {code} of rank {rank}"
