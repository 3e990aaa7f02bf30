"""Labels a second and core, whole stage beside solver alone: python -m tests.benchmarks.bench_labels.

Both are measured in one run, on all cores: HGS with instances at hand and nothing stored, then
`label_missing` (instances, HGS, canonical form, proof, Parquet, merge, Ray and its start).
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import hybgensea
import numpy as np

from model.instances import InstanceStream
from model.problem import City
from storage.store import Store
from tasks.hardware import local_cores
from tasks.label_chunk import solver_seed
from tasks.labels import LabelSpec, label_missing
from tasks.ray_cluster import ray_session

N, ITERATIONS, POPULATION = 20, 20, 5  # the laptop preset's
CITY = City.uniform(100, seed=1)


def bare(rows: range) -> float:
    """Return the seconds that HGS alone takes for ``rows``."""
    stream = InstanceStream(CITY, 1, "train")
    arguments = []
    for i in rows:
        instance = stream(N, i)
        x, y = np.ascontiguousarray(1e4 * CITY.xy[instance.nodes].T)
        demands = np.concatenate([[0.0], instance.demands.astype(float)])
        arguments.append((x, y, demands, instance.capacity, solver_seed(1, N, i)))
    began = time.perf_counter()
    for x, y, demands, capacity, seed in arguments:
        hybgensea.solve_cvrp(
            x,
            y,
            demands,
            capacity,
            rounding=False,
            verbose=False,
            extract_all_feasible=False,
            seed=seed,
            nbIter=ITERATIONS,
            mu=POPULATION,
            timeLimit=0.0,
        )
    return time.perf_counter() - began


def main() -> None:
    """Print both rates and their ratio."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    cores = local_cores()
    with ProcessPoolExecutor(cores) as pool:
        parts = [range(count * k // cores, count * (k + 1) // cores) for k in range(cores)]
        alone = count / sum(pool.map(bare, parts))
    budget = {"iterations": ITERATIONS, "population": POPULATION}
    spec = LabelSpec(dataset="d", smallest=N, largest=N, count=count, **budget)
    with tempfile.TemporaryDirectory() as folder, ray_session():
        warm = spec.model_copy(update={"dataset": "warm", "count": 10 * cores})
        label_missing(Store.open(folder), CITY, warm)
        summary = label_missing(Store.open(folder), CITY, spec)
    staged = summary.new / summary.seconds / cores
    inside = summary.new / summary.solving
    print(f"HGS alone:     {alone:6.1f} labels/s a core (n = {N}, {budget})")
    print(f"whole stage:   {staged:6.1f} labels/s a core, {staged / alone:.2f} of the solver alone")
    print(f"solver inside: {inside:6.1f} labels/s a core, stage / solver inside {staged / inside:.2f}")


if __name__ == "__main__":
    main()
