"""How many labels a second one driver keeps up with: python -m tests.benchmarks.bench_label_scaling [nodes].

A cluster of nodes of four cores each, all on this machine (Ray's own cluster utility), whose solver sleeps as
long as a solver would work, then answers with a sweep's routes: workers, Ray, driver and store do what they
always do, and take this machine's cores to do it. Efficiency is the time slept over cores times time.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Ray reads them when it is imported, and its workers import this module.
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])

from ray.cluster_utils import Cluster

from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.stage import LabelSpec, label_missing
from mcvrp.tasks.solvers import Answer, SolverEntry, best_of, register
from mcvrp.tasks.support.machine import hardware
from mcvrp.tasks.support.ray_session import ray_session
from tests.support.sweep import sweep

CITY = City.uniform(100, seed=1)
N, CORES_A_NODE = 20, 4
SECONDS = 20.0  # a measurement
PACES = (0.03, 0.2, 1.0)  # seconds an instance: `thrifty` at 100 customers, ...


@dataclass(frozen=True)
class Asleep:
    """A solver of sleep."""

    time_limit: float
    label: str = field(default="Sleep", init=False)
    version: str = field(default="sleep 1", init=False)
    device: str = field(default="none", init=False)
    configuration: str = field(default="sleeps", init=False)

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        time.sleep(self.time_limit)
        return sweep(city, instance)


register("asleep", SolverEntry("Sleep", f"{__spec__.name}:Asleep", takes=("time_limit",)))


def measure(cores: int, pace: float) -> tuple[int, float]:
    """Return how many labels were made, and the seconds that it took."""
    count = max(cores, round(cores * SECONDS / pace))
    spec = LabelSpec(
        dataset="d", smallest=N, largest=N, count=count, solver="asleep", time_limit=pace, shard_rows=5_000
    )
    with tempfile.TemporaryDirectory() as folder, ray_session():
        began = time.monotonic()
        made = label_missing(Store.open(folder), CITY, spec).new
        return made, time.monotonic() - began


def main() -> None:
    """Print a row for each size of the cluster and each pace."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    print(f"{hardware()}\n\ncores  s a label  labels  seconds  labels/s  efficiency", flush=True)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    os.environ["RAY_ADDRESS"] = cluster.address
    nodes = 0
    try:
        for wanted in (size for size in (1, 2, 4, 8, 16, 32) if size <= most):
            for _ in range(wanted - nodes):
                cluster.add_node(num_cpus=CORES_A_NODE, object_store_memory=80 * 2**20)
            nodes, cores = wanted, wanted * CORES_A_NODE
            for pace in PACES:
                made, seconds = measure(cores, pace)
                rate = made / seconds
                row = (
                    f"{cores:5} {pace:10.2f} {made:7,} {seconds:8.1f} {rate:9.1f} {rate * pace / cores:11.2f}"
                )
                print(row, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
