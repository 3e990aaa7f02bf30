"""`mcvrp solve` on the CVRPLIB instances of a folder: gap to the best known, first routes, time limit.

Each .vrp with a .sol is solved by the whole command. Seconds are wall-clock time: start-up (then there are
savings routes), search, and what the command took beyond its limit. --busy starts that many processes that
compute. --early-end DAYS measures instead what days of the paper's city lose as the search ends before the
limit if nothing has improved for long.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mcvrp.model.problem import gap
from mcvrp.tasks.solve.member import Found, Member, SearchMember
from mcvrp.tasks.solve.portfolio import SAVINGS, Portfolio
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import NO_LIMITS
from tests.benchmarks.common import PAPER_CITY, arguments, heading, instances_of, row

EARLY_SIZES = (20, 50, 100, 200)


@dataclass
class Watched(Portfolio):
    """Portfolio that continues until the time limit; it notes when it would have ended, with which cost."""

    ended: tuple[float, float] | None = None  # seconds and cost

    def _settled(self, until: float, members: Sequence[Member]) -> bool:
        if self.ended is None and super()._settled(until, members):
            self.ended = self._elapsed(), self._least
        return time.monotonic() >= until


def early_end(days: int, time_limit: float) -> None:
    """Print what days lose by the early end, and how much of the time limit it leaves."""
    heading("customers", "days", "seconds", "ended early", "mean loss (%)", "largest (%)")
    for n in EARLY_SIZES:
        spec, rows = SolveSpec(time_limit=time_limit), []
        for instance in instances_of(PAPER_CITY, n, days, seed=26):
            search = Watched(PAPER_CITY, instance, NO_LIMITS, time_limit, time.monotonic())
            (built,) = savings(PAPER_CITY, instance, 1, 1)
            search.take(Found(SAVINGS, built))
            members = [SearchMember.of("hgs", PAPER_CITY, instance, spec, 1 + k) for k in range(spec.cores)]
            search.search(members, f"{n} customers")
            seconds_of, found = search.ended or (time_limit, search._least)
            rows.append((seconds_of, gap(found, search._least)))
        seconds, losses = np.array(rows).T
        early = int((seconds < 0.95 * time_limit).sum())
        row(n, days, f"{seconds.mean():.1f}", early, f"{losses.mean():.3f}", f"{losses.max():.3f}")


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


def main() -> None:
    """Solve all instances and print the means."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--by", default="auto")
    parser.add_argument("--early-end", type=int, metavar="DAYS")
    options = parser.parse_args()
    if options.early_end:
        early_end(options.early_end, options.time_limit)
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
