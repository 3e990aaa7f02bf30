"""A training run as its users start it, in a process of its own, and parts of it killed.

`python -m tests.support.driven_training STORE CACHE SPEC` trains the phase "only" of the JSON document SPEC.
It prints a line whenever ranks are launched, and one line per step.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.processes import descendants
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankJob
from mcvrp.tasks.train.phases import train_phase
from mcvrp.tasks.train.ranks.launch import run_local
from mcvrp.tasks.train.spec import TrainSpec
from tests.support.shared import until

Part = Literal["rank", "driver", "everything"]
_ROOT = Path(__file__).parents[2]
_LAUNCHED = "launched"
_GONE_SECONDS = 20.0  # until what a killed driver has started must have ended


class _PrintedProgress(Progress):
    def update(self, done: int, note: str | None = None) -> None:
        print(f"step {done}", flush=True)
        super().update(done, note)


def _launch(job: RankJob, progress: Progress) -> None:
    print(_LAUNCHED, flush=True)
    one_thread_per_rank = replace(job, cores=job.ranks)
    run_local(
        one_thread_per_rank, _PrintedProgress(progress.label, progress.total, progress.unit, progress.done)
    )


def main() -> int:
    """Train the phase of the arguments; return the exit code."""
    store, city = Store.open(sys.argv[1]), City.uniform(60, seed=3)
    try:
        spec = TrainSpec.model_validate_json(sys.argv[3])
        launch = _launch if spec.launcher == "local" else None
        train_phase(store, city, spec, "only", Path(sys.argv[2]), launch)
    except McvrpError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


@dataclass
class DrivenRun:
    """The run, started again whenever it has been killed."""

    store: Store
    cache: Path
    spec: TrainSpec
    chance: random.Random
    errors: list[str] = field(default_factory=list)  # lines of stderr
    _process: subprocess.Popen[str] | None = None

    def kill(self, part: Part) -> bool:
        """Let it train for some steps, then kill ``part`` of it; False if it has finished before."""
        process = self._process or self._start()
        for _ in range(self.chance.randint(1, 9)):
            if not self._line():
                return False
        time.sleep(self.chance.uniform(0.0, 0.1))  # some steps, or a checkpoint
        family = descendants(process.pid)
        chosen = self._chosen(part, process.pid, family)
        _kill(chosen)
        if process.pid in chosen:
            self._end()
            _await_end_of(family)
        else:
            while (line := self._line()) and line != _LAUNCHED:  # printed before the kill
                pass
        return bool(chosen)

    def finish(self) -> int:
        """Let it train to its end and return its exit code."""
        (self._process or self._start()).communicate()
        return self._end()

    def close(self) -> None:
        if self._process is not None:
            _kill([*descendants(self._process.pid), self._process.pid])
            self._end()

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _chosen(self, part: Part, driver: int, family: list[int]) -> list[int]:
        ranks = [pid for pid in family if _runs(pid, "mcvrp.tasks.train.ranks.rank")]
        if part == "rank":
            return [self.chance.choice(ranks)] if ranks else []
        return [driver] if part == "driver" else [driver, *family]

    def _start(self) -> subprocess.Popen[str]:
        """Start the driver and wait until it launches ranks."""
        arguments = (self.store.uri, str(self.cache), self.spec.model_dump_json())
        log = self.cache.with_name("stderr")
        with log.open("a") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.driven_training", *arguments],
                cwd=_ROOT,
                env={**os.environ, "TMPDIR": str(self.cache.parent)},
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._line()
        return self._process

    def _end(self) -> int:
        assert self._process is not None
        with self._process as process:  # waits, and closes its output
            self._process = None
        self.errors = self.cache.with_name("stderr").read_text().splitlines()
        return process.returncode


def _kill(processes: list[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int, program: str) -> bool:
    with contextlib.suppress(OSError):
        return program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _await_end_of(family: list[int]) -> None:
    until("the end", _GONE_SECONDS, lambda: not any(_runs(pid, "train") for pid in family), 0.05)


if __name__ == "__main__":
    sys.exit(main())
