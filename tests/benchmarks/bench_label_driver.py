"""The driver's memory over many files: python -m tests.benchmarks.bench_label_driver [files].

A real run with one label per file and instances of a few customers. Then the same command again, which
lists the merged files and has nothing to do. The driver is this process; workers are separate processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import psutil

from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, label_missing
from mcvrp.tasks.support.progress import ProgressReport, listening
from mcvrp.tasks.support.ray_session import ray_session

SMALLEST, SIZES = 3, 50
CITY = City.uniform(100, seed=1)
marks = [100, 1_000, 10_000, 100_000]  # shards


def print_memory(moment: str) -> None:
    print(f"{moment:>16} : {psutil.Process().memory_info().rss / 2**20:6.0f} MB", flush=True)


def at_marks(report: ProgressReport) -> None:
    while marks and report.unit == "labels" and report.done >= marks[0]:
        print_memory(f"{marks.pop(0):,} shards")


def main() -> None:
    """Print the driver's memory during the run, and the seconds of a run with nothing to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", nargs="?", type=int, default=100_000)
    spec = LabelSpec(
        dataset="d",
        smallest=SMALLEST,
        largest=SMALLEST + SIZES - 1,
        count=max(1, parser.parse_args().shards // SIZES),
        iterations=1,
        population=2,
        capacity=(40, 40),
        shard_rows=1,
    )
    with tempfile.TemporaryDirectory() as folder, ray_session() as workers, listening(at_marks):
        store = Store.open(folder)
        print_memory("before")
        summary = label_missing(store, CITY, spec)
        rate = summary.new / summary.seconds
        print(f"labelled {summary.new:,} shards in {summary.seconds:.0f} s, {rate:,.0f}/s on {workers} cores")
        print_memory("after")
        began = time.perf_counter()
        assert label_missing(store, CITY, spec).new == 0
        seconds = time.perf_counter() - began
        print(f"again, nothing to do: {seconds:.0f} s, {1e3 * seconds / summary.new:.2f} ms per shard")
        print_memory("after")


if __name__ == "__main__":
    main()
