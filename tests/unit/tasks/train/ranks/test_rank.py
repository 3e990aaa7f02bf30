"""A rank whose launcher was killed while it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from mcvrp.shared_array import dumps
from mcvrp.storage.store.store import Store
from tests.support.shared import until
from tests.support.training import rank_job


def test_it_ends_though_nobody_opens_its_pipe(tmp_path: Path) -> None:
    job, events = tmp_path / "job.pickle", tmp_path / "events"
    job.write_bytes(dumps(rank_job(Store.open(tmp_path / "store"), "I")))
    os.mkfifo(events)
    rank_program = f"{sys.executable} -m mcvrp.tasks.train.ranks.rank {job} {events}"
    launcher = ["sh", "-c", f"{rank_program} $$ >/dev/null 2>&1 & echo $!"]  # ends at once
    launched = subprocess.run(launcher, stdout=subprocess.PIPE, text=True, check=True)
    rank = int(launched.stdout)
    try:
        until("the end of the rank", 120, lambda: not lives(rank))
    finally:
        if lives(rank):
            os.kill(rank, signal.SIGKILL)


def lives(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
