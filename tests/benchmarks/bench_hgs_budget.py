"""What a cheaper HGS costs in quality at 20 to 24 customers: python -m tests.benchmarks.bench_hgs_budget.

Each budget solves the same instances on one core; the baseline, HGS-CVRP's own population and
1,000 iterations without improvement, is solved in the same run and taken as the optimum.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from model.instances import InstanceStream
from model.problem import City
from tasks.solvers.hgs import HGS

CITY = City.uniform(100, seed=1)
INSTANCES = [InstanceStream(CITY, 7, "train")(n, i) for n in (20, 22, 24) for i in range(100)]
BUDGETS = ((30, None), (20, None), (60, 5), (40, 5), (20, 5), (20, 3))


def measure(iterations: int, population: int | None) -> tuple[NDArray[np.float64], float]:
    """Return the cost of every instance, and the instances solved a second."""
    began = time.perf_counter()
    solver = HGS(iterations=iterations, population=population)
    costs = [answer.costs[0] for answer in solver.solve(CITY, INSTANCES, samples=1, seed=1)]
    return np.array(costs), len(INSTANCES) / (time.perf_counter() - began)


def main() -> None:
    """Print rate, share of optimal answers and mean gap of each budget."""
    best, rate = measure(1000, None)
    print(f"1000 iterations, population 25: {rate:5.1f}/s, the baseline")
    for iterations, population in BUDGETS:
        costs, rate = measure(iterations, population)
        optimal, gap = np.mean(costs < best + 1e-9), np.mean(costs / best - 1)
        print(
            f"{iterations:4} iterations, population {population or 25:2}: {rate:5.1f}/s, "
            f"{optimal:6.1%} optimal, mean gap {gap:.3%}"
        )


if __name__ == "__main__":
    main()
