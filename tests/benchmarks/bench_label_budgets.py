"""Costs and gains of each label budget (bench_label_budgets FILE.jsonl [NAME ...]).

Every budget solves the same instances of the city of 10,000 customers with the same seeds, on one core; the
baseline is HGS-CVRP with 5 s of processor time. Results are appended, one line per instance, so that a
measurement of hours can be interrupted, resumed and extended with more instances; without names the table is
printed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import hybgensea
import numpy as np
import pandas as pd

from mcvrp.model.problem import Instance, Solution
from mcvrp.tasks.label.solving import solver_seed
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Solver
from tests.benchmarks.common import PAPER_CITY as CITY, append_row, arguments, instances_of, read_rows, timed

COUNTS = {20: 100, 50: 100, 100: 100, 200: 100, 400: 50}  # instances of each size
BASELINE = "flat 5 s"
ALL_SIZES = range(20, 401)  # 100,000 of each: the paper's 38.1 M
SOLVERS: dict[str, Callable[[int], Solver]] = {  # by number of customers
    BASELINE: lambda n: HGS(time_limit=5.0),
    "converged": lambda n: HGS(**budget_for("converged", n).options()),
    "thrifty": lambda n: HGS(**budget_for("thrifty", n).options()),
    "PyVRP 5 s": lambda n: PyVRP(time_limit=5.0),
}


def solve(name: str, instance: Instance, seed: int) -> Solution:
    if name == "paper":
        return paper(instance, seed)
    (answer,) = SOLVERS[name](instance.n).solve(CITY, [instance], samples=1, seed=seed)
    assert answer.solution is not None, answer.failure
    return answer.solution


def paper(instance: Instance, seed: int) -> Solution:
    """The configuration of the paper's authors: unit square as it is, 10,000 vehicles."""
    x, y = np.ascontiguousarray(CITY.xy[instance.nodes].T)
    demands = np.concatenate([[0.0], instance.demands.astype(float)])
    quiet = {"rounding": False, "verbose": False, "extract_all_feasible": False}
    budget = {"num_vehicles": 10_000, "seed": seed, "timeLimit": 5.0}
    result = hybgensea.solve_cvrp(x, y, demands, instance.capacity, **quiet, **budget)
    nodes = instance.nodes.tolist()
    return Solution.of([nodes[k] for k in route] for route in result.routes)


def measure(results: Path, name: str, most: int) -> None:
    """Solve those of the first ``most`` instances of each size that are not in ``results`` yet."""
    done = set(read(results)[["name", "n", "i"]].itertuples(index=False, name=None))
    for n, count in COUNTS.items():
        for i, instance in enumerate(instances_of(CITY, n, min(count, most), split="train")):
            if (name, n, i) in done:
                continue
            run = partial(solve, name, instance, solver_seed(1, n, i))
            append_row(results, {"name": name, "n": n, "i": i, **timed(CITY, instance, run)})


def read(results: Path) -> pd.DataFrame:
    columns = ["name", "n", "i", "wall", "cpu", "cost"]
    return pd.DataFrame(read_rows(results), columns=columns)


def table(results: Path) -> None:
    """Print the mean gap to the baseline with its 95 % interval, and the seconds, by name and size."""
    rows = read(results)
    base = rows[rows["name"] == BASELINE].set_index(["n", "i"])["cost"].rename("base")
    rows = rows.join(base, on=["n", "i"])
    rows["gap"] = 100 * (rows["cost"] / rows["base"] - 1)
    figures = rows.groupby(["name", "n"], sort=False).agg(
        instances=("gap", "count"),
        cost=("cost", "mean"),
        gap=("gap", "mean"),
        half=("gap", lambda gaps: 1.96 * gaps.sem()),
        seconds=("cpu", "mean"),
    )
    print(figures.to_string(float_format="{:.4f}".format))
    for name in figures.index.unique("name"):
        seconds = figures.loc[name, "seconds"]
        if len(seconds) == len(COUNTS):
            hours = core_hours(cast("pd.Series[float]", seconds))
            print(f"{name:12} 38.1 M labels: {hours:,.0f} core-hours, interpolated between sizes")


def core_hours(seconds: pd.Series[float]) -> float:
    """Return the core-hours of 100,000 instances of each size, seconds interpolated in log-log."""
    ordered = seconds.sort_index()
    logs = np.interp(np.log(list(ALL_SIZES)), np.log(ordered.index.to_numpy(float)), np.log(ordered))
    return float(np.exp(logs).sum()) * 100_000 / 3600


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*SOLVERS, "paper"]))
    parser.add_argument("--instances", type=int, default=100, help="maximum number of each size")
    options = parser.parse_args()
    for name in options.names:
        measure(options.results, name, options.instances)
    if not options.names:
        table(options.results)


if __name__ == "__main__":
    main()
