"""A training run as its users start it, in a process of its own, and parts of it killed.

`python -m tests.support.driven_training STORE CACHE SPEC` trains the phase "only" of the JSON document SPEC.
It prints a line whenever ranks are launched, and one line per step.
"""

from __future__ import annotations

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
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankJob
from mcvrp.tasks.train.phases import train_phase
from mcvrp.tasks.train.ranks.launch import run_local
from mcvrp.tasks.train.spec import TrainSpec
from tests.support.faults import Family, start_family
from tests.support.shared import until

Part = Literal["rank", "driver", "everything"]
_LAUNCHED = "launched"
_GONE_SECONDS = 20.0  # until what a killed driver has started must have ended


class _PrintedProgress(Progress):
    def update(self, done: int, note: str | None = None) -> None:
        print(f"step {done}", flush=True)
        super().update(done, note)


def _launch(job: RankJob, progress: Progress) -> None:
    print(_LAUNCHED, flush=True)
    printed = _PrintedProgress(progress.label, progress.total, progress.unit, progress.done)
    run_local(replace(job, cores=job.ranks), printed)  # one thread per rank


def main() -> int:
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
    logs: list[Path] = field(default_factory=list)
    _running: tuple[subprocess.Popen[str], Family] | None = None

    @property
    def output(self) -> list[str]:
        return [line for log in self.logs for line in log.read_text().splitlines()]

    def kill(self, part: Part) -> bool:
        """Let it train for some steps, then kill ``part`` of it; False if it has finished before."""
        process, family = self._running or self._start()
        if not self._prints("step", self.chance.randint(1, 9)):
            return False
        time.sleep(self.chance.uniform(0.0, 0.1))  # some steps, or a checkpoint
        if part == "rank":
            ranks = [
                pid for pid, title in family.members().items() if "mcvrp.tasks.train.ranks.rank" in title
            ]
            for pid in self.chance.sample(ranks, min(len(ranks), 1)):
                os.kill(pid, signal.SIGKILL)
            return self._prints(_LAUNCHED, 1)
        if part == "driver":
            process.kill()
        else:
            family.kill()
        process.wait()
        until("the end of the ranks", _GONE_SECONDS, lambda: not family.members(), 0.05)
        self._running = None
        return True

    def finish(self) -> int:
        process, _ = self._running or self._start()
        return process.wait()

    def close(self) -> None:
        if self._running is not None:
            process, family = self._running
            family.kill()
            process.wait()

    def _start(self) -> tuple[subprocess.Popen[str], Family]:
        arguments = (self.store.uri, str(self.cache), self.spec.model_dump_json())
        program = [sys.executable, "-m", "tests.support.driven_training", *arguments]
        self.logs.append(self.cache.with_name(f"log-{len(self.logs)}"))
        self._running = start_family(program, self.logs[-1], TMPDIR=str(self.cache.parent))
        return self._running

    def _prints(self, word: str, count: int) -> bool:
        """Wait for ``count`` more lines that begin with ``word``; False if the run ends before."""
        assert self._running is not None
        process, wanted = self._running[0], self._printed(word) + count
        until(word, 300.0, lambda: self._printed(word) >= wanted or process.poll() is not None, 0.02)
        return self._printed(word) >= wanted

    def _printed(self, word: str) -> int:
        return sum(line.startswith(word) for line in self.output)


if __name__ == "__main__":
    sys.exit(main())
