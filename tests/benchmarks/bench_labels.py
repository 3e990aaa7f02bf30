"""Labels per second and core, whole stage beside solver alone.

Both are measured in one run, on all cores: HGS with instances at hand and nothing stored, then
`label_missing` (instances, HGS, canonical form, proof, Parquet, card, Ray). Ray is up before, as
it is for all but the first seconds of a run worth measuring.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import hybgensea
import numpy as np

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.solving import solver_seed
from mcvrp.tasks.label.stage import LabelSpec, label_missing
from mcvrp.tasks.solvers.budgets import Budget, budget_for
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.ray_session import ray_session

CITY = City.uniform(10_000, seed=1)
INSTANCES = InstanceStream(CITY, 1, "train")
CASES = (  # customers, budget as the spec names it, the same for the solver, labels
    (20, {"budget": "thrifty"}, budget_for("thrifty", 20), 60_000),
    (100, {"budget": "thrifty"}, budget_for("thrifty", 100), 2_000),
    (20, {"time_limit": 0.2}, Budget(time_limit=0.2), 600),
    (100, {"time_limit": 0.2}, Budget(time_limit=0.2), 600),
)
OPTIMA = 1_000  # instances for the share of optimal labels


def bare(n: int, budget: Budget, rows: range) -> float:
    problems = []
    for i in rows:
        instance = INSTANCES(n, i)
        x, y = np.ascontiguousarray(1e4 * CITY.xy[instance.nodes].T)
        demands = np.concatenate([[0.0], instance.demands.astype(float)])
        problems.append(((x, y, demands, instance.capacity), solver_seed(1, n, i)))
    options = {
        "rounding": False,
        "verbose": False,
        "extract_all_feasible": False,
        "nbIter": budget.iterations or 2**31 - 1,
        "timeLimit": budget.time_limit or 0.0,
        **({"mu": budget.population} if budget.population else {}),
        **({"nbGranular": budget.granular} if budget.granular else {}),
    }
    began = time.perf_counter()
    for problem, seed in problems:
        hybgensea.solve_cvrp(*problem, seed=seed, **options)
    return time.perf_counter() - began


def optimal(store: Store, n: int) -> float:
    """Return the share of the first labels that 1,000 iterations of HGS's own settings do not better."""
    costs = load_labels(store, "d", n, OPTIMA).costs
    instances = [INSTANCES(n, i) for i in range(OPTIMA)]
    best = HGS(iterations=1000).solve(CITY, instances, samples=1, seed=1)
    return float(np.mean([c <= answer.costs[0] + 1e-9 for c, answer in zip(costs, best, strict=True)]))


def main() -> None:
    cores = local_cores()
    for n, fields, budget, count in CASES:
        with ProcessPoolExecutor(cores) as pool:
            parts = [range(count * k // cores, count * (k + 1) // cores) for k in range(cores)]
            alone = count / sum(pool.map(bare, [n] * cores, [budget] * cores, parts))
        spec = LabelSpec(dataset="d", smallest=n, largest=n, count=count, **fields)
        with tempfile.TemporaryDirectory() as folder, ray_session():
            store = Store.open(folder)
            warm = spec.model_copy(update={"dataset": "warm", "count": 10 * cores})
            label_missing(store, CITY, warm)
            summary = label_missing(store, CITY, spec)
            share = optimal(store, n) if fields == {"budget": "thrifty"} and n == 20 else None
        staged = summary.new / summary.seconds / cores
        inside = summary.new / summary.solving
        print(f"n = {n}, {budget.description}, {count:,} labels")
        print(f"  HGS alone:     {alone:7.2f} labels/s per core")
        print(f"  whole stage:   {staged:7.2f} labels/s per core, {staged / alone:.3f} of the solver alone")
        print(f"  solver inside: {inside:7.2f} labels/s per core: all else takes {1 - staged / inside:.1%}")
        if share is not None:
            print(f"  optimal:       {share:.1%} of the first {OPTIMA:,}")


if __name__ == "__main__":
    main()
