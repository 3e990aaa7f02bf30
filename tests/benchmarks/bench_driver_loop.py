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
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self, cast

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}

import ray

from mcvrp.model.problem import City
from mcvrp.storage.store.lease import Lease
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import stage
from mcvrp.tasks.label.plan import missing_units
from mcvrp.tasks.label.spec import LabelSpec, Source, SpecDocument
from mcvrp.tasks.label.work import Unit, UnitReceipt
from mcvrp.tasks.label.worker import WorkerContext
from mcvrp.tasks.support import ray_window
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

    async def work(self, unit: Unit, context: WorkerContext, pace: float, phase: float) -> UnitReceipt:
        """Return what `label_unit` does, after the same calls of the counter."""
        made = int(unit.rows * phase)
        context.count(unit, made)
        step = math.ceil(unit.count_seconds / pace)
        rows = 1 + int(step * random.random())  # the next sign of life is due at any time
        while made < unit.rows:
            rows = min(rows, unit.rows - made)
            await asyncio.sleep(rows * pace)
            made, rows = made + rows, step
            context.count(unit, made)
        context.count(unit, 0)
        return UnitReceipt(unit.rows, unit.rows * pace, "0" * 64)


class Sender:
    """Stands for the remote function of the driver's units."""

    def __init__(self, workers: int, pace: float) -> None:
        self._pace, self._sent, self._workers = pace, 0, workers
        actor = ray.remote(num_cpus=0, max_concurrency=max(1, workers // ACTORS))(Workers)
        self._actors = [actor.remote() for _ in range(ACTORS)]
        self._rng = random.Random(1)

    def __call__(self, _function: Callable[..., Any]) -> Sender:
        return self

    def remote(self, unit: Unit, context: ray.ObjectRef) -> Any:
        phase = self._rng.random() if self._sent < self._workers else 0.0
        self._sent += 1
        method = cast(Any, self._actors[self._sent % ACTORS]).work
        return method.remote(unit, context, self._pace, phase)


class Meter:
    """Lease and progress of the driver, which measures after a start, then ends the run."""

    left, total = 0.0, 2**40

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.first: tuple[float, float, int] | None = None
        self.last = (0.0, 0.0, 0)
        self.rounds = self.done = self.saved = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

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
    units = list(missing_units({}, spec, SpecDocument()))
    meter, sender = Meter(), Sender(workers, pace)
    names = ("get", "wait", "put", "exceptions", "ObjectRef")
    fake = SimpleNamespace(**{name: getattr(ray, name) for name in names}, remote=lambda **_: sender)
    run = stage._Run(store, Source(spec, CITY), cast(Lease, meter), workers)
    ray_window.ray, stage.Progress = fake, lambda *_, **__: meter  # type: ignore
    ray_window.require_cluster = lambda: None  # type: ignore[attr-defined]
    try:
        run.label(units)
    except Ended:
        pass
    finally:
        ray_window.ray, stage.Progress = ray, Progress  # type: ignore
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
