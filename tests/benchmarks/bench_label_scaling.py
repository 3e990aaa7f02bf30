"""Throughput of one label driver: python -m tests.benchmarks.bench_label_scaling [nodes].

A cluster of nodes with one core each on this machine (Ray's cluster utility), with a solver that sleeps as
long as a real one would work, then returns the routes of a sweep. Workers, Ray, driver and store do their
usual work on this machine's cores. Efficiency is the time slept over nodes times wall-clock time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

# Ray reads them when it is imported, and its workers import this module.
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])

import psutil
from ray.cluster_utils import Cluster

from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, label_missing
from mcvrp.tasks.support.machine import hardware
from mcvrp.tasks.support.processes import below
from mcvrp.tasks.support.ray_session import ray_session
from tests.support import stand_in

CITY = City.uniform(100, seed=1)
N = 20
SECONDS = 20.0  # per measurement
FILE_SECONDS = 5.0  # of solving per file; by default, a file takes ten minutes
PACES = (0.2, 1.0, 5.0)  # seconds per instance; the paper has 5


def measure(cores: int, pace: float, head: Sequence[psutil.Process]) -> None:
    """Label for SECONDS or a bit more, on workers that have begun before; print a row."""
    spec = LabelSpec(
        dataset="warm",
        smallest=N,
        largest=N,
        count=8 * cores,
        solver=stand_in.ASLEEP,
        time_limit=0.5,
        shard_rows=1,
    )
    count = max(cores, round(cores * SECONDS / pace))
    with tempfile.TemporaryDirectory() as folder, ray_session():
        store = Store.open(folder)
        label_missing(store, CITY, spec)
        began, of_head, of_driver = time.monotonic(), _used(head), time.process_time()
        rows = max(1, round(FILE_SECONDS / pace))
        changes = {"dataset": "measured", "count": count, "time_limit": pace, "shard_rows": rows}
        labels = label_missing(store, CITY, spec.model_copy(update=changes)).new
        seconds = time.monotonic() - began
        of_head, of_driver = _used(head) - of_head, time.process_time() - of_driver
    rate = labels / seconds
    print(
        f"{cores:5} {pace:12.2f} {labels:7,} {seconds:8.1f} {rate:9.1f} {rate * pace / cores:11.2f} "
        f"{labels / of_driver:10,.0f} {labels / of_head:10,.0f}",
        flush=True,
    )


def _used(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="?", type=int, default=64, help="maximum number")
    most = parser.parse_args().nodes
    print(
        f"{hardware()}\n\nnodes  s per label  labels  seconds  labels/s  efficiency  "
        "labels per processor s of the driver, of the head",
        flush=True,
    )
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    head = below(os.getpid())
    os.environ["RAY_ADDRESS"] = cluster.address
    nodes = 0
    try:
        for wanted in (size for size in (4, 16, 64) if size <= most):
            for _ in range(wanted - nodes):
                cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
            nodes = wanted
            for pace in PACES:
                measure(nodes, pace, head)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
