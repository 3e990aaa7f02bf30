"""Ranks as forks of one warm process, which has imported torch and DeepSpeed: for tests that start many."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from mcvrp.tasks.support.processes import free_port
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankEvent, RankJob, Refused, ranks_died
from tests.support.only_rank import group_environment

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["torch._dynamo", "mcvrp.tasks.train.trainer", __name__])


# Ranks, of so many, to kill at a report of rank 0.
Fate = Callable[[RankEvent, int], list[int]]


def forked(fate: Fate | None = None) -> Callable[[RankJob, Progress], None]:
    """Return a launcher whose ranks are forks, of one thread each, killed by ``fate``."""

    def launch(job: RankJob, progress: Progress) -> None:
        port = free_port()
        reader, writer = _FORKS.Pipe(duplex=False)
        ranks = [
            _FORKS.Process(target=_rank, args=(job, rank, port, dict(os.environ), writer), daemon=True)
            for rank in range(job.ranks)
        ]
        try:
            for process in ranks:
                process.start()
            writer.close()
            _follow(job, ranks, reader, fate)
        finally:
            for process in ranks:
                process.kill()
                process.join()

    return launch


def _follow(job: RankJob, ranks: list[Any], reader: Connection, fate: Fate | None) -> None:
    error, open_ = None, True
    while open_ and not any(process.exitcode for process in ranks):
        if reader in wait([reader, *(p.sentinel for p in ranks if p.exitcode is None)]):
            try:
                event = reader.recv()
            except (EOFError, OSError):  # cut off in the middle of a report, or all have ended
                open_ = False
                continue
            error = event.error() if isinstance(event, Refused) else error
            if fate and not isinstance(event, Refused):
                chosen = fate(event, len(ranks))
                for rank in chosen:
                    ranks[rank].kill()
                fate = None if chosen else fate  # reports from before the kill are ignored
    if error:
        raise error
    for process in ranks:
        process.join(None if not open_ else 0)
    codes = [process.exitcode for process in ranks]
    if any(codes):
        killed = -signal.SIGKILL in codes
        raise ranks_died(job, "SIGKILL" if killed else f"exit codes {codes}")


def _rank(job: RankJob, rank: int, port: int, environment: dict[str, str], channel: Connection) -> None:
    os.environ |= environment
    meet_at(port, rank, job.ranks)
    from mcvrp.tasks.train.trainer import run_rank

    error = run_rank(job, rank, job.ranks, channel.send)
    if error:
        raise SystemExit(error.exit_code)


def meet_at(port: int, rank: int, ranks: int) -> None:
    os.environ |= group_environment(rank, ranks, port)


def together(work: Callable[..., None], ranks: int, *arguments: object) -> None:
    port = free_port()
    members = [
        _FORKS.Process(target=_member, args=(port, rank, ranks, work, *arguments), daemon=True)
        for rank in range(ranks)
    ]
    for member in members:
        member.start()
    for member in members:
        member.join()
    assert [member.exitcode for member in members] == [0] * ranks


def _member(port: int, rank: int, ranks: int, work: Callable[..., None], *arguments: object) -> None:
    meet_at(port, rank, ranks)
    from mcvrp.tasks.train.trainer import distributed

    with distributed(cores=1):
        work(rank, ranks, *arguments)
