"""`mcvrp solve` on the CVRPLIB instances of a folder: gap to the best known, first routes, time limit.

Each .vrp with a .sol is solved by the whole command. Seconds are wall-clock time: start-up (then there are
savings routes), search, and what the command took beyond its limit. --busy starts that many processes that
compute. With --days instead of a folder, decomposition is compared with a search of the whole day per core,
on as many days of 600 and 1,000 customers of two cities: the difference of costs in percent.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mcvrp.model.problem import City, Instance, cost, gap
from mcvrp.tasks.solve.member import SearchMember
from mcvrp.tasks.solve.parts import PartsMember
from mcvrp.tasks.solve.portfolio import Portfolio
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.solver import NO_LIMITS
from tests.benchmarks.common import PAPER_CITY, Gap, arguments, heading, instances_of, row


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Compute in ``count`` processes."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def solved(file: Path, options: list[str]) -> list[float]:
    """Return gap (%), seconds of start-up and search, and of the whole command."""
    with tempfile.TemporaryDirectory() as out:
        command = [
            sys.executable,
            "-m",
            "mcvrp.flows.cli.main",
            "solve",
            str(file),
            "--out",
            f"{out}/r",
            "--json",
        ]
        began = time.perf_counter()
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
        whole = time.perf_counter() - began
    summary = json.loads(done.stdout)
    seconds = summary["seconds"]
    behind = float(gap(summary["cost"], summary["best_known"]))
    print(f"{file.stem:16} {behind:7.2f} %  by {summary['found_by']:10} {whole:6.1f} s", flush=True)
    return [behind, seconds["start_up"], seconds["search"], whole]


def clustered(customers: int, seed: int = 7) -> City:
    """Return a city of 25 clusters, depot off the centre."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.05, 0.95, (25, 2))
    xy = centres[rng.integers(25, size=customers)] + rng.normal(0, 0.04, (customers, 2))
    return City(np.vstack([[0.3, 0.4], np.clip(xy, 0, 1)]))


def searched(city: City, day: Instance, seconds: float, *, parts: bool) -> float:
    """Return the cost of a portfolio without a model on all cores, decomposed or not."""
    spec = SolveSpec(time_limit=seconds)
    portfolio = Portfolio(city, day, NO_LIMITS, seconds, time.monotonic(), patient=True)
    if parts:
        return cost(city, portfolio.search([PartsMember.of("hgs", city, day, spec, 0, cores=spec.cores)], ""))
    members = [SearchMember.of("hgs", city, day, spec, seed) for seed in range(spec.cores)]
    return cost(city, portfolio.search(members, ""))


def compare(days: int, seconds: float) -> None:
    """Print the difference of decomposition to whole searches, per day and in the mean."""
    heading("city", "customers", "s", "days", "difference (%)", texts=1)
    for name, city in (("uniform", PAPER_CITY), ("clustered", clustered(10_000))):
        for n in (600, 1000):
            instances = instances_of(city, n, days, seed=303)
            parts, whole = (
                [searched(city, day, seconds, parts=each) for day in instances] for each in (True, False)
            )
            row(name, n, f"{seconds:g}", days, Gap.of(parts, np.array(whole)))


def main() -> None:
    """Solve all instances and print the means."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--days", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--by", default="auto")
    options = parser.parse_args()
    if options.days:
        compare(options.days, options.time_limit)
        return
    files = [file for file in sorted(options.folder.glob("*.vrp")) if file.with_suffix(".sol").exists()]
    given = ["--time-limit", str(options.time_limit), "--by", options.by]
    with busy(options.busy):
        rows = np.array([solved(file, given) for _ in range(options.repeat) for file in files])
    means, worst = rows.mean(axis=0), rows.max(axis=0)
    beyond = rows[:, 3] - options.time_limit
    print(f"{len(rows)} runs: gap {means[0]:.2f} %, start-up {means[1]:.2f} s (at most {worst[1]:.2f})")
    print(f"search {means[2]:.2f} s, beyond the limit {beyond.mean():+.2f} s (at most {beyond.max():+.2f})")


if __name__ == "__main__":
    main()
