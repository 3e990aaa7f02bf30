"""The driver's memory over many shards: python -m tests.benchmarks.bench_label_driver [shards].

A real run with one label per shard and instances of a few customers. Then the same command again, which
lists the shards and has nothing to do. The driver is this process; workers are separate processes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, label_missing
from mcvrp.tasks.support.progress import ProgressReport, listening
from mcvrp.tasks.support.ray_session import ray_session

SMALLEST, SIZES = 3, 50
MARKS = (100, 1_000, 10_000, 100_000)
CITY = City.uniform(100, seed=1)


def resident() -> float:
    """Return the megabytes of this process's memory that are in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def at_marks(report: ProgressReport) -> None:
    """Print the memory when as many shards are there as a mark says."""
    while marks and report.unit == "labels" and report.done >= marks[0]:
        print(f"{marks.pop(0):9,} shards: {resident():6.0f} MB", flush=True)


marks = list(MARKS)


def main() -> None:
    """Print the driver's memory as it goes, and what it takes to find that nothing is missing."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    spec = LabelSpec(
        dataset="d",
        smallest=SMALLEST,
        largest=SMALLEST + SIZES - 1,
        count=max(1, count // SIZES),
        iterations=1,
        population=2,
        capacity=(40, 40),
        shard_rows=1,
    )
    with tempfile.TemporaryDirectory() as folder, ray_session() as workers, listening(at_marks):
        store = Store.open(folder)
        print(f"    before : {resident():6.0f} MB", flush=True)
        summary = label_missing(store, CITY, spec)
        rate = summary.new / summary.seconds
        print(f"labelled {summary.new:,} shards in {summary.seconds:.0f} s, {rate:,.0f}/s on {workers} cores")
        print(f"     after : {resident():6.0f} MB", flush=True)
        began = time.perf_counter()
        assert label_missing(store, CITY, spec).new == 0
        seconds = time.perf_counter() - began
        print(f"again, nothing to do: {seconds:.0f} s, {1e3 * seconds / summary.new:.2f} ms a shard")
        print(f"     after : {resident():6.0f} MB")


if __name__ == "__main__":
    main()
