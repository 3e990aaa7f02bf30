"""Decomposition of large days against a search of the whole day on each core, in equal wall-clock time.

Both are members of the portfolio of `mcvrp solve`, on all cores, without early end. Days of 600 and 1,000
customers of a uniform and of a clustered city; a result is a line of FILE.jsonl, so that a measurement can
be killed at any time, resumed and extended.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from mcvrp.model.problem import City, Instance, cost
from mcvrp.tasks.solve.member import SearchMember
from mcvrp.tasks.solve.parts import PartsMember
from mcvrp.tasks.solve.portfolio import Portfolio
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.solver import NO_LIMITS
from tests.benchmarks.common import (
    PAPER_CITY,
    Gap,
    append_row,
    arguments,
    heading,
    instances_of,
    read_rows,
    row,
)

SIZES = (600, 1000)


def clustered(customers: int, seed: int = 7) -> City:
    """Return a city of 25 clusters, its depot off the centre."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.05, 0.95, (25, 2))
    xy = centres[rng.integers(25, size=customers)] + rng.normal(0, 0.04, (customers, 2))
    return City(np.vstack([[0.3, 0.4], np.clip(xy, 0, 1)]))


def searched(city: City, day: Instance, seconds: float, *, parts: bool) -> float:
    """Return the cost of the best routes that the portfolio finds, decomposed or not."""
    spec = SolveSpec(time_limit=seconds)
    portfolio = Portfolio(city, day, NO_LIMITS, seconds, time.monotonic(), patient=True)
    if parts:
        member = PartsMember.of("hgs", city, day, spec, 0, cores=spec.cores)
        return cost(city, portfolio.search([member], "decomposed"))
    members = [SearchMember.of("hgs", city, day, spec, seed) for seed in range(spec.cores)]
    return cost(city, portfolio.search(members, "whole"))


def main() -> None:
    """Search the days that FILE does not have, and print the mean differences."""
    parser = arguments(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--days", type=int, default=6)
    options = parser.parse_args()
    heading("city", "customers", "s", "days", "difference (%)", texts=1)
    for name, city in (("uniform", PAPER_CITY), ("clustered", clustered(10_000))):
        for n in SIZES:
            costs = {False: list[float](), True: list[float]()}
            for k, day in enumerate(instances_of(city, n, options.days, seed=303)):
                for parts, values in costs.items():
                    key = {"city": name, "n": n, "s": options.time_limit, "day": k, "parts": parts}
                    values += [
                        each["cost"] for each in read_rows(options.file) if key.items() <= each.items()
                    ]
                    if len(values) == k:
                        values.append(searched(city, day, options.time_limit, parts=parts))
                        append_row(options.file, key | {"cost": values[-1]})
            difference = Gap.of(costs[True], np.array(costs[False]))
            row(name, f"{n:,}", f"{options.time_limit:g}", options.days, difference)


if __name__ == "__main__":
    main()
