"""Costs and gains of each label budget (bench_label_budgets FILE.jsonl [NAME ...]).

Every budget solves the same instances of the city of 10,000 customers with the same seeds, on one
core; the baseline is HGS-CVRP with 5 s of processor time. Results are appended, one line per
instance, so that a measurement of hours can be interrupted, resumed and extended with more instances;
without names the table is printed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hybgensea
import numpy as np
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.label.solving import solver_seed
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver

CITY = City.uniform(10_000, seed=1)
STREAM = InstanceStream(CITY, 1, "train")
COUNTS = {20: 100, 50: 100, 100: 100, 200: 100, 400: 50}  # instances of each size
BASELINE = "flat 5 s"
ALL_SIZES = range(20, 401)  # 100,000 of each: the paper's 38.1 M
Solve = Callable[[Instance, int], Solution]


def solver(make: Callable[[int], Solver]) -> Callable[[int], Solve]:
    """Return how to solve instances of n customers with the solver that ``make(n)`` gives."""

    def of_size(n: int) -> Solve:
        built = make(n)

        def solve(instance: Instance, seed: int) -> Solution:
            (answer,) = built.solve(CITY, [instance], samples=1, seed=seed)
            assert answer.solution is not None, answer.failure
            return answer.solution

        return solve

    return of_size


def paper(n: int) -> Solve:
    """The configuration of the paper's authors: unit square as it is, 10,000 vehicles."""

    def solve(instance: Instance, seed: int) -> Solution:
        x, y = np.ascontiguousarray(CITY.xy[instance.nodes].T)
        demands = np.concatenate([[0.0], instance.demands.astype(float)])
        result = hybgensea.solve_cvrp(
            x,
            y,
            demands,
            instance.capacity,
            num_vehicles=10_000,
            rounding=False,
            verbose=False,
            extract_all_feasible=False,
            seed=seed,
            timeLimit=5.0,
        )
        nodes = instance.nodes.tolist()
        return Solution.of([nodes[k] for k in route] for route in result.routes)

    return solve


CONFIGURATIONS: dict[str, Callable[[int], Solve]] = {
    BASELINE: solver(lambda n: HGS(time_limit=5.0)),
    "converged": solver(lambda n: HGS(**budget_for("converged", n).options())),
    "thrifty": solver(lambda n: HGS(**budget_for("thrifty", n).options())),
    "paper": paper,
    "PyVRP 5 s": solver(lambda n: PyVRP(time_limit=5.0)),
}


def measure(results: Path, name: str, most: int) -> None:
    """Solve what is not in ``results`` yet, of the first ``most`` instances of each size."""
    done = {(row["name"], row["n"], row["i"]) for row in _rows(results)}
    for n, count in COUNTS.items():
        solve = CONFIGURATIONS[name](n)
        for i in range(min(count, most)):
            if (name, n, i) in done:
                continue
            instance = STREAM(n, i)
            wall, processor = time.perf_counter(), time.process_time()
            solution = solve(instance, solver_seed(1, n, i))
            row = {
                "name": name,
                "n": n,
                "i": i,
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - processor,
                "cost": cost(CITY, solution),
            }
            assert infeasibility(instance, solution) is None
            with results.open("a") as stream:
                stream.write(json.dumps(row) + "\n")


def table(results: Path) -> None:
    """Print the mean gap to the baseline with its 95 % interval, and the seconds, by name and size."""
    rows = _rows(results)
    found = {(row["name"], row["n"], row["i"]): row for row in rows}
    for name in dict.fromkeys(row["name"] for row in rows):
        seconds = {}
        for n in COUNTS:
            pairs = [(found[key], found.get((BASELINE, n, key[2]))) for key in found if key[:2] == (name, n)]
            if not pairs:
                continue
            seconds[n] = float(np.mean([row["cpu"] for row, _ in pairs]))
            gaps = np.array([100 * (row["cost"] / base["cost"] - 1) for row, base in pairs if base])
            if len(gaps) < 2:
                continue
            mean, half = float(gaps.mean()), 1.96 * float(gaps.std(ddof=1)) / np.sqrt(len(gaps))
            costs = np.mean([row["cost"] for row, _ in pairs])
            print(
                f"{name:12} n={n:3}  {len(gaps):3} instances  mean cost {costs:7.4f}  "
                f"gap {mean:+.3f} ± {half:.3f} %  {seconds[n]:.3f} s of processor"
            )
        if len(seconds) == len(COUNTS):
            print(
                f"{name:12} 38.1 M labels: {core_hours(seconds):,.0f} core-hours, interpolated between sizes"
            )


def core_hours(seconds: dict[int, float]) -> float:
    """Return the core-hours of 100,000 instances of each size, seconds interpolated in log-log."""
    sizes = np.array(sorted(seconds), dtype=float)
    values: NDArray[np.float64] = np.log([seconds[int(n)] for n in sizes])
    return float(np.exp(np.interp(np.log(list(ALL_SIZES)), np.log(sizes), values)).sum()) * 100_000 / 3600


def _rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def main() -> None:
    """Measure the named configurations, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--instances", type=int, default=100, help="at most so many of each size")
    options = parser.parse_args()
    for name in options.names:
        measure(options.results, name, options.instances)
    if not options.names:
        table(options.results)


if __name__ == "__main__":
    main()
