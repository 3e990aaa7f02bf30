"""Seconds to decode by processes of one thread each, against one process with a thread per core.

Run as `python -m tests.benchmarks.bench_decoding_processes`; takes some minutes. Nothing gates on it. Random
weights, all cores of this machine. "threads" is the baseline: one process, 1,024 paths at once, OpenMP
threads that spin while they wait for each other. "processes" is what the stages do; its children have
been started before. Runs of both take turns, and the median of each counts: first with nothing beside
them, then with as many processes beside them that are always busy as there are cores. Processor time is
of all that decode; of the baseline's it is also a share of that of one thread, which is what there is to do.
Both must have the same samples.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import psutil
import torch

from mcvrp.model.decoding import Decoded
from mcvrp.model.instances import InstanceStream
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City, Instance
from mcvrp.model.strategies import Greedy, Nucleus, Strategy
from mcvrp.tasks.solvers.devices import torch_threads
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.support.machine import busy_seconds, local_cores
from mcvrp.tasks.support.pool import Pool
from tests.support.networks import require_equal

ROUNDS = 5  # of a way with nothing beside it
BUSY_ROUNDS = 3  # beside busy processes; of threads one, which takes long enough
FORMER_PATHS = 1024  # decoded at once by the baseline
CITY = City.uniform(400, 1)


@dataclass(frozen=True)
class Case:
    """Instances of ``n`` customers, the network's dimension, and what is asked."""

    dim: int
    n: int
    instances: int
    strategy: Strategy
    samples: int

    def network(self) -> FmMcvrp:
        """Return a network of random weights."""
        torch.manual_seed(0)
        dim = self.dim
        return FmMcvrp(NetworkConfig(401, dim, dim // 16, 3, 3, 4 * dim)).eval()

    def drawn(self) -> list[Instance]:
        """Return the instances."""
        stream = InstanceStream(CITY, 1, "test")
        return [stream(self.n, i) for i in range(self.instances)]


CASES = (
    Case(64, 20, 512, Greedy(), 1),
    Case(64, 50, 32, Nucleus(), 16),
    Case(128, 50, 256, Greedy(), 1),
    Case(128, 50, 32, Nucleus(), 16),
)


@dataclass(frozen=True)
class Run:
    """Seconds of one run, and its samples."""

    wall: float
    processor: float
    decoded: Sequence[Decoded]


def main() -> None:
    """Print a table: a case, then how long each way takes, quiet and beside busy processes."""
    cores = local_cores()
    print(f"{cores} cores, load before: {psutil.getloadavg()[0]:.1f}; seconds, wall-clock (processor)\n")
    titles = [
        "d",
        "n",
        "instances",
        "samples",
        "beside",
        "1 thread",
        f"{cores} threads",
        f"{cores} processes",
    ]
    titles += ["threads / processes", "busy / quiet", "processor / 1 thread", "others' cores"]
    print(f"| {' | '.join(titles)} |\n|{'--:|' * len(titles)}", flush=True)
    with Pool(cores, worth=0) as pool:
        for case in CASES:
            report(case, pool, cores)
        print(f"\nstart of a process: {start_seconds(pool):.1f} s of processor time")


def report(case: Case, pool: Pool, cores: int) -> None:
    """Print the rows of a case."""
    network, instances = case.network(), case.drawn()
    former = FmMcvrpSolver(network, case.strategy, max_batch=FORMER_PATHS)
    shared = FmMcvrpSolver(network, case.strategy, pool=pool)

    def run(solver: FmMcvrpSolver, threads: int) -> Run:
        with torch_threads(threads):
            wall, own, children = time.perf_counter(), time.process_time(), pool.children_seconds
            decoded = solver.decoded(CITY, instances, case.samples, 1)
            own = time.process_time() - own
            return Run(time.perf_counter() - wall, own + pool.children_seconds - children, decoded)

    ways: list[Callable[[], Run]] = [
        lambda: run(former, 1),
        lambda: run(former, cores),
        lambda: run(shared, 1),
    ]
    while pool.processes < cores:
        ways[2]()
    quiet = 0.0
    for beside, rounds in ((0, ROUNDS), (cores, BUSY_ROUNDS)):
        with busy(beside):
            runs: list[list[Run]] = [[] for _ in ways]
            began, others = time.perf_counter(), busy_seconds() or 0.0
            for k in range(rounds):
                for found, way in zip(runs, ways, strict=True):
                    if not (k and beside and way is ways[1]):
                        found.append(way())
            others = (busy_seconds() or 0.0) - others - sum(r.processor for found in runs for r in found)
            others /= time.perf_counter() - began
        for found in runs:
            require_equal(found[0].decoded, runs[0][0].decoded)
        walls = [median(one.wall for one in found) for found in runs]
        processors = [median(one.processor for one in found) for found in runs]
        quiet = quiet or walls[2]
        cells = [f"{case.dim}", f"{case.n}", f"{case.instances}", f"{case.samples}", f"{beside or '–'}"]
        cells += [f"{wall:.2f} ({cpu:.2f})" for wall, cpu in zip(walls, processors, strict=True)]
        cells += [f"{walls[1] / walls[2]:.2f}", f"{walls[2] / quiet:.2f}"]
        cells += [
            f"{processors[1] / processors[0]:.2f}, {processors[2] / processors[0]:.2f}",
            f"{others:.1f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep ``count`` processes beside this one busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def start_seconds(pool: Pool) -> float:
    """Return the processor time that a child of ``pool`` has needed before and between its tasks."""
    children = psutil.Process().children()
    return (sum(sum(child.cpu_times()[:2]) for child in children) - pool.children_seconds) / len(children)


if __name__ == "__main__":
    main()
