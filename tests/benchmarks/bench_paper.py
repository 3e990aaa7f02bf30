"""The preset `paper` with small counts, from city to routes: python -m tests.benchmarks.bench_paper FOLDER.

Seconds, peak memory (PSS) of all processes of a command and of the largest, growth of the store. II-B is
killed after its first checkpoint, and resumed. --distant, afterwards: a phase and the model in an S3 store
at 100 ms per request with 2 % refused (tests/support/s3_server.py). 20 minutes on idle cores,
20 GB of memory, 30 GB of disk.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcvrp.storage import layout
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.support.machine import hardware
from tests.benchmarks.common import arguments, heading, instances_of, memory, row
from tests.support.command import Workplace
from tests.support.s3_proxy import DISTANT, Proxy
from tests.support.s3_server import S3Server, serving
from tests.support.shared import until

_COUNTS = """
    label.largest=30 label.count=3 label.held_out=1
    train.ranks=2 train.batch=16 train.log_every=1
    train.phases.0.last=28 train.phases.0.trunc=1
    train.phases.1.last=25
    train.phases.2.first=29 train.phases.2.last=29 train.phases.2.passes=2
    train.phases.3.first=30 train.phases.3.last=30
    attention.epochs=1 attention.epoch_instances=1024 attention.evaluation=128
    benchmark.sizes=[20,30] benchmark.instances=[3,2]
    benchmark.samples=[1,10,50] benchmark.heuristic_samples=[1,2]
"""
_METHODS = f"benchmark.methods={list(all_methods())}"  # the preset's, and all others
_KILLED = "II-B"


@dataclass
class Chain:
    """Commands on a store, with their seconds, memory and bytes."""

    place: Workplace
    store: str
    environment: dict[str, str] = field(default_factory=dict)

    def stage(
        self, title: str, *command: str, store: str = "", killed: Callable[[], bool] | None = None
    ) -> None:
        """Run a command, and print its row; it is killed (kill -9) as soon as ``killed`` holds."""
        uri = store or self.store
        before, began, peaks = _bytes(uri), time.monotonic(), [0.0, 0.0]
        environment = self.place.environment(**self.environment, MCVRP_STORE=uri)
        program = [sys.executable, "-m", "mcvrp.flows.cli.main", *command]
        log = (self.place.folder / f"{title.replace(' ', '-')}.log").open("w")
        with (
            log,
            subprocess.Popen(program, cwd=self.place.folder, env=environment, stdout=log, stderr=log) as run,
        ):
            watch = threading.Thread(target=self._watch, args=(run, peaks))
            watch.start()
            while run.poll() is None:
                if killed and killed():
                    run.kill()
                time.sleep(0.2)
            watch.join()
        seconds, grown = time.monotonic() - began, _bytes(uri) - before
        row(title, f"{seconds:.0f}", *(f"{peak / 2**30:.1f}" for peak in peaks), f"{grown / 1e6:,.1f}")
        if run.returncode and not killed:
            raise SystemExit(f"{title}: exit code {run.returncode}, see {log.name}")

    def preset(
        self,
        title: str,
        *command: str,
        changes: Sequence[str] = (),
        killed: Callable[[], bool] | None = None,
    ) -> None:
        """Run a command of the preset with the small counts."""
        counts = [part for count in (*_COUNTS.split(), _METHODS, *changes) for part in ("--set", count)]
        self.stage(title, *command, "--preset", "paper", *counts, killed=killed)

    def _watch(self, run: subprocess.Popen[bytes], peaks: list[float]) -> None:
        while run.poll() is None:
            sizes = [memory(pid) for pid in self.place.processes()] or [0]
            peaks[:] = max(peaks[0], sum(sizes)), max(peaks[1], *sizes)
            time.sleep(1)


def _bytes(uri: str) -> int:
    with contextlib.suppress(Exception):  # no folder yet
        return sum(file.size for file in Store.open(uri, writable=False).files("", hidden=True))
    return 0


def local(place: Workplace) -> None:
    chain, store = Chain(place, str(place.store)), Store(str(place.store))
    chain.preset("city", "city", "create")
    chain.preset("labels", "label")
    chain.preset("verify", "verify", "paper")
    shutil.copytree(place.store, place.folder / "labelled")  # for `distant`
    for phase in ("I", "II-A"):
        chain.preset(f"phase {phase}", "train", "--phase", phase)
    saved = f"{layout.phase_dir('paper', _KILLED)}/step-*/state.json"
    first = lambda: any(place.store.glob(saved))  # noqa: E731
    every = ("train.checkpoint_every=1",)
    chain.preset(f"phase {_KILLED}, killed", "train", "--phase", _KILLED, changes=every, killed=first)
    until("the ranks have ended", 60, lambda: not place.processes())
    chain.preset(f"phase {_KILLED} resumed, II-C, publication", "train")
    chain.stage("export", "models", "export", "paper", "exported")
    other = str(place.folder / "other")
    chain.stage("import", "models", "import", "exported", store=other)
    day = instances_of(load_city(store, "paper"), 30, 1)[0]
    lines = [f"{c},{d}" for c, d in zip(day.ids, day.demands, strict=True)]
    (place.folder / "day.csv").write_text("\n".join(["customer,demand", *lines, ""]))
    options = f"day.csv --capacity {day.capacity} --city paper --model paper".split()
    limits = ["--by", "model", "--time-limit", "60", "--out", "by-model"]
    chain.stage("solve by the model, 60 s", "solve", *options, *limits, store=other)
    chain.preset("attention models", "am")
    chain.preset("benchmark", "benchmark")


def distant(place: Workplace) -> None:
    with serving(place.folder / "s3") as endpoint:  # two checkpoints are more than it has in memory
        server, proxy = S3Server(endpoint), Proxy(endpoint, DISTANT)
        chain = Chain(place, f"s3://{server.bucket()}/paper", server.environment(endpoint=proxy.endpoint))
        os.environ |= server.environment()  # for the growth of the store, past the proxy
        server.upload(place.folder / "labelled", chain.store)
        phase = 'train.phases=[{name="II-A", first=20, last=25, lr=1.4e-3, rotation=true}]'
        chain.preset("phase II-A alone", "train", "--phase", "II-A", changes=(phase,))
        chain.preset("publication", "train", changes=(phase,))
        chain.stage("export", "models", "export", "paper", "exported-distant")
        print(f"{proxy.counts.total():,} requests, {proxy.refused} of them refused or cut", flush=True)
        proxy.close()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--distant", action="store_true")
    options: argparse.Namespace = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=options.distant)
    print(f"{hardware()}\n", flush=True)
    heading("stage", "seconds", "all processes (GiB)", "the largest (GiB)", "store grows by (MB)", texts=1)
    (distant if options.distant else local)(Workplace(options.folder.absolute()))


if __name__ == "__main__":
    main()
