"""Load of one label driver by simulated workers: python -m tests.benchmarks.bench_driver_loop [workers ...].

The driver, its loop and its Ray calls are real, for the dataset of the preset `paper`. Its units run in a few
actors, as coroutines that sleep instead of solving and send the counts and receipts of a real worker. The
first units are met at a random moment of their work, as in the middle of a run.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}

import ray

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import LabelFile
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import driver as driver_module
from mcvrp.tasks.label.driver import Driver
from mcvrp.tasks.label.plan import LabelDataset, count_missing
from mcvrp.tasks.label.spec import LabelSpec, Source
from mcvrp.tasks.label.work import Unit, UnitCount, UnitReceipt
from mcvrp.tasks.support.machine import hardware
from mcvrp.tasks.support.progress import Progress

ACTORS = 4
SECONDS = 20.0  # of a measurement
START_SECONDS = 20.0  # before it: the actors start
WORKERS = (64, 512, 2048, 4096)
PACES = (5.0, 1.0)  # seconds per label; the paper has 5
CITY = City.uniform(1000, seed=1)


class Ended(Exception):
    """The measurement is over."""


class Workers:
    """Workers that sleep; an actor runs as many coroutines at once as it has workers."""

    async def work(
        self, unit: Unit | None, pace: float, phase: float
    ) -> AsyncIterator[UnitCount | UnitReceipt | None]:
        """Yield what `label_unit` does, or, without a unit, what `merge_shard` does."""
        made = int(unit.rows * phase) if unit else 0
        yield UnitCount(made)
        if unit is None:
            yield None
            return
        step = math.ceil(getattr(unit, "count_seconds", 2.0) / pace)
        rows = 1 + int(step * random.random())  # the next sign of life is due at any time
        while made < unit.rows:
            rows = min(rows, unit.rows - made)
            await asyncio.sleep(rows * pace)
            made, rows = made + rows, step
            if made < unit.rows:
                yield UnitCount(made)
        path = layout.staged_chunk("paper", unit.n, unit.start, unit.stop)
        footer = Footer("", "", unit.n, unit.start, unit.stop, "", (), "")
        yield UnitReceipt(unit.rows, (), unit.rows * pace, LabelFile(path, footer))


class Sender:
    """Stands for the remote function of the driver's units."""

    def __init__(self, workers: int, pace: float) -> None:
        self._pace, self._sent, self._workers = pace, 0, workers
        actor = ray.remote(num_cpus=0, max_concurrency=max(1, workers // ACTORS))(Workers)
        self._actors = [actor.remote() for _ in range(ACTORS)]
        self._rng = random.Random(1)

    def __call__(self, _function: Callable[..., Any]) -> Sender:
        return self

    def remote(self, _limit: float, _work: object, *arguments: Any) -> Any:
        unit = arguments[-1] if isinstance(arguments[-1], Unit) else None
        phase = self._rng.random() if self._sent < self._workers else 0.0
        self._sent += 1
        method = cast(Any, self._actors[self._sent % ACTORS]).work
        return method.options(num_returns="streaming").remote(unit, self._pace, phase)


class Meter:
    """Lease and progress of the driver, which measures after a start, then ends the run."""

    saved, left, done = 0, 0.0, 0

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.first: tuple[float, float, int] | None = None
        self.last = (0.0, 0.0, 0)
        self.rounds = 0

    def check(self) -> None:
        self.rounds += 1
        now = time.monotonic()
        self.last = now, time.process_time(), self.done
        if self.first is None and now - self._began > START_SECONDS:
            self.first, self.rounds = self.last, 0
        elif self.first and now - self.first[0] > SECONDS:
            raise Ended

    def begin(self) -> None:
        self._began = time.monotonic()

    def update(self, done: int, note: str | None = None) -> None:
        self.done = done


def measure(store: Store, workers: int, pace: float) -> None:
    """Run the driver with so many ``workers`` of ``pace`` seconds per label; print a row."""
    spec = LabelSpec(
        dataset="paper",
        smallest=20,
        largest=400,
        count=100_000,
        time_limit=pace,
        tuned=False,
        workers=workers,
    )
    dataset = LabelDataset.open(store, Source(spec, CITY))
    meter = Meter()
    sender = Sender(workers, pace)
    patched = {
        name: getattr(ray, name) for name in ("get", "wait", "put", "exceptions", "cancel", "ObjectRef")
    }
    driver_module.ray = SimpleNamespace(**patched, remote=lambda **_: sender)  # type: ignore[attr-defined]
    driver = Driver(dataset, cast(Lease, meter))
    try:
        driver.run(count_missing(dataset), workers, cast(Progress, meter))
    except Ended:
        pass
    finally:
        driver_module.ray = ray  # type: ignore[attr-defined]
    assert meter.first
    seconds, used, labels = (last - first for last, first in zip(meter.last, meter.first, strict=True))
    print(
        f"{workers:7,} {pace:11.1f} {workers / pace:9,.0f} {labels / seconds:9,.0f} {used / seconds:8.2f} "
        f"{meter.rounds / seconds:9.1f}",
        flush=True,
    )


def main() -> None:
    """Print labels per second and the processor time of the driver for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workers", nargs="*", type=int, default=WORKERS)
    parser.add_argument("--pace", nargs="*", type=float, default=PACES, help="seconds per label")
    arguments = parser.parse_args()
    print(
        f"{hardware()}\n\nworkers  s per label  expected  labels/s  cores of the driver  rounds/s", flush=True
    )
    for workers in arguments.workers:
        for pace in arguments.pace:
            ray.init(
                num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20
            )
            with tempfile.TemporaryDirectory() as folder:
                measure(Store.open(folder), workers, pace)
            ray.shutdown()


if __name__ == "__main__":
    main()
