"""Settings of searches by size and time (bench_tuning FILE.jsonl tune | reference | verdict).

"tune" searches the settings of HGS in each cell (customers, seconds of processor time) by successive halving:
all candidates on a few days, the better half on twice as many, and so on; then once more among variations
of the best. "verdict" compares the settings of the code (`tasks.solvers.budgets`) with the solvers' own on
days of another seed; the baseline is the best cost seen, of "reference" (longer runs), too. Results are
appended, one line per run, so that a measurement can be killed at any time, resumed and extended. The full
protocol: tune --cell-seconds 4000; reference --days 100 --runs 5 --longest 60; verdict --days 100
--cell-seconds 6000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from mcvrp.model.random import philox_key
from mcvrp.tasks.solvers.budgets import tuned_budget
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Search
from tests.benchmarks.common import (
    PAPER_CITY as CITY,
    Gap,
    append_row,
    arguments,
    heading,
    instances_of,
    read_rows,
    row,
    timed,
)

CELLS = {  # seconds by customers
    20: (0.01, 0.1, 1.0),
    50: (0.01, 0.05, 0.2, 1.0),
    100: (0.01, 0.05, 0.2, 1.0, 5.0),
    200: (0.02, 0.1, 0.5, 2.0, 10.0),
    400: (0.05, 0.2, 1.0, 5.0, 10.0),
    1000: (0.5, 2.0, 5.0, 15.0),
}
Settings = dict[str, float]
SEEDS = {"tune": 101, "verdict": 202}  # of the days
OWN = "HGS"
MOST_DAYS = 20  # of a cell
CANDIDATES: list[Settings] = [
    {"population": population, "granular": granular, "savings": savings}
    for population in (16, 8, 4, 2)  # of equals, the first is chosen
    for granular in (10, 15)
    for savings in (1, 8)
]
VARIATIONS: list[Settings] = [  # of HGS-CVRP's other fields, and further values
    {"offspring": 10},
    {"offspring": 20},
    {"nbElite": 1},
    {"nbElite": 8},
    {"nbClose": 2},
    {"targetFeasible": 0.4},
    {"granular": 7},
    {"savings": 24},
]
LONG = {"population": 10, "granular": 12, "offspring": 20, "savings": 8}  # of reference runs


@dataclass(frozen=True)
class TriedHGS(HGS):
    """HGS with ``more`` parameters of HGS-CVRP, by its own names."""

    more: Mapping[str, float] = field(default_factory=dict)

    def _options(self, hard: bool) -> dict[str, Any]:
        return {**super()._options(hard), **self.more}


def made(seconds: float, settings: Mapping[str, float]) -> HGS:
    ours = {k: v for k, v in settings.items() if k in ("population", "granular", "offspring", "savings")}
    more = {k: v for k, v in settings.items() if k not in ours}
    return TriedHGS(seconds, **ours, more=more)  # type: ignore[arg-type]


def text(settings: Mapping[str, float]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


class Runs:
    """Costs of all runs, by stage, size, seconds, name and day; measured and stored where missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        keys = ("stage", "n", "seconds", "name", "i")
        self.costs = {tuple(each[key] for key in keys): each["cost"] for each in read_rows(path)}

    def of(
        self, stage: str, n: int, seconds: float, name: str, days: int, make: Callable[[], Search]
    ) -> list[float]:
        """Return the costs of the first ``days``."""
        for i, instance in enumerate(day_instances(stage, n, days)):
            key = (stage, n, seconds, name, i)
            if key not in self.costs:
                seed = philox_key("tuning", stage, name, str(n), str(i)) % 2**30
                run = timed(CITY, instance, partial(make().search, CITY, instance, seed))
                identity = dict(zip(("stage", "n", "seconds", "name", "i"), key, strict=True))
                append_row(self.path, {**identity, **run})
                self.costs[key] = run["cost"]
        return [self.costs[stage, n, seconds, name, i] for i in range(days)]

    def best(self, stage: str, n: int, i: int) -> float:
        """Return the least cost of a day that any run has found."""
        return min(value for key, value in self.costs.items() if key[:2] == (stage, n) and key[-1] == i)

    def gap(self, stage: str, n: int, costs: Sequence[float]) -> Gap:
        return Gap.of(costs, np.array([self.best(stage, n, i) for i in range(len(costs))]))


@cache
def day_instances(stage: str, n: int, days: int) -> Sequence[Any]:
    return instances_of(CITY, n, days, seed=SEEDS[stage])


def halved(runs: Runs, n: int, seconds: float, candidates: list[Settings], limit: float) -> list[Settings]:
    """Return the candidates by successive halving within about ``limit`` seconds, the best first."""
    rounds = max(1, math.ceil(math.log2(len(candidates))))
    each = len(candidates) * (1 + (rounds - 1) / 2)  # runs per day of the first round
    days = int(min(max(limit / (each * seconds), 1), MOST_DAYS / 2 ** (rounds - 1)))
    ranked = candidates
    for remaining in range(rounds, 0, -1):
        kept = ranked[: math.ceil(len(ranked) / 2)] if remaining < rounds else ranked
        costs = [runs.of("tune", n, seconds, text(each), days, partial(made, seconds, each)) for each in kept]
        relative = np.array(costs) / np.mean(costs, axis=0)
        order = np.argsort(relative.mean(axis=1), kind="stable")
        ranked = [kept[k] for k in order] + ranked[len(kept) :]
        days = min(2 * days, MOST_DAYS)
    return ranked


def tune(runs: Runs, cells: Mapping[int, Sequence[float]], limit: float) -> None:
    """Print the best settings of each cell, their gap and that of HGS-CVRP's own to the best seen."""
    heading("n", "seconds", "days", "HGS", "best settings", "difference", "second", "best")
    for n, budgets in cells.items():
        candidates = CANDIDATES
        for seconds in budgets:
            while len(candidates) > 4 and len(candidates) * 2.5 * seconds > limit:
                candidates = candidates[: len(candidates) // 2]  # the best of the last cell
            candidates = halved(runs, n, seconds, candidates, limit)
            best, second = candidates[:2]
            if len(VARIATIONS) * 2 * seconds < limit:
                best, second = halved(
                    runs, n, seconds, [best, *({**best, **each} for each in VARIATIONS)], limit
                )[:2]
            days = sum(key[:4] == ("tune", n, seconds, text(best)) for key in runs.costs)
            own = runs.of("tune", n, seconds, OWN, days, partial(HGS, seconds))
            ours = runs.of("tune", n, seconds, text(best), days, partial(made, seconds, best))
            gaps = [runs.gap("tune", n, costs) for costs in (own, ours)]
            row(n, f"{seconds:g}", days, *gaps, Gap.of(ours, np.array(own)), text(second), text(best))


def reference(runs: Runs, sizes: Sequence[int], days: int, count: int, longest: float) -> None:
    """Make ``count`` long runs of each day."""
    for n in sizes:
        for k in range(count):
            runs.of("verdict", n, longest, f"long {k}", days, partial(made, longest, LONG))


def verdict(
    runs: Runs, cells: Mapping[int, Sequence[float]], solvers: Sequence[str], days: int, limit: float
) -> None:
    """Print the gaps of the solvers with their own and with tuned settings to the best costs seen."""
    heading("solver", "n", "seconds", "days", "own settings", "tuned", "difference", texts=1)
    for solver in solvers:
        kind = SOLVERS[solver]
        for n, seconds in ((n, each) for n, budgets in cells.items() for each in budgets):
            shown = int(min(days, max(3, limit / (2 * seconds))))
            tuned = tuned_budget(solver, n, seconds)
            name = f"{solver}, {tuned.description}"
            make = partial(kind.search, **tuned.options())
            ours = runs.of("verdict", n, seconds, name, shown, make)
            own = runs.of("verdict", n, seconds, solver, shown, partial(kind.search, time_limit=seconds))
            gaps = [runs.gap("verdict", n, each) for each in (own, ours)]
            row(kind.label, n, f"{seconds:g}", shown, *gaps, Gap.of(ours, np.array(own)))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("stage", choices=("tune", "reference", "verdict"))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(CELLS))
    parser.add_argument("--solvers", nargs="+", default=["hgs", "pyvrp"], help="of the verdict")
    parser.add_argument("--within", type=float, default=math.inf, help="cells of at most so many seconds")
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--runs", type=int, default=2, help="long runs per day of reference")
    parser.add_argument("--longest", type=float, default=10.0, help="seconds of a long run")
    parser.add_argument("--cell-seconds", type=float, default=60.0, help="most seconds of a cell, about")
    options = parser.parse_args()
    runs = Runs(options.results)
    cells = {n: [each for each in CELLS[n] if each <= options.within] for n in options.sizes}
    if options.stage == "tune":
        tune(runs, cells, options.cell_seconds)
    elif options.stage == "reference":
        reference(runs, options.sizes, options.days, options.runs, options.longest)
    else:
        verdict(runs, cells, options.solvers, options.days, options.cell_seconds)


if __name__ == "__main__":
    main()
