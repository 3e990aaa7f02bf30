"""Loss of days of the paper's city because the search of `mcvrp solve` ends before its time limit.

It ends if nothing has improved for long (`Portfolio`): here it continues, and notes when it would have ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcvrp.model.problem import gap
from mcvrp.tasks.solve.member import Found, Member, SearchMember
from mcvrp.tasks.solve.portfolio import SAVINGS, Portfolio
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import NO_LIMITS
from tests.benchmarks.common import PAPER_CITY, arguments, heading, instances_of, row

SIZES = (20, 50, 100, 200)


@dataclass
class Watched(Portfolio):
    """Portfolio that continues until the time limit; it notes when it would have ended, with which cost."""

    ended: tuple[float, float] | None = None  # seconds and cost

    def _settled(self, until: float, members: Sequence[Member]) -> bool:
        if self.ended is None and super()._settled(until, members):
            self.ended = self._elapsed(), self._least
        return time.monotonic() >= until


def main() -> None:
    """Print what days lose by the early end, and how much of the time limit it leaves."""
    parser = arguments(__doc__)
    parser.add_argument("days", type=int)
    parser.add_argument("--time-limit", type=float, default=10.0)
    options = parser.parse_args()
    spec = SolveSpec(time_limit=options.time_limit)
    heading("customers", "days", "seconds", "ended early", "mean loss (%)", "largest (%)")
    for n in SIZES:
        rows = []
        for instance in instances_of(PAPER_CITY, n, options.days, seed=26):
            search = Watched(PAPER_CITY, instance, NO_LIMITS, spec.time_limit, time.monotonic())
            (built,) = savings(PAPER_CITY, instance, 1, 1)
            search.take(Found(SAVINGS, built))
            members = [SearchMember.of("hgs", PAPER_CITY, instance, spec, 1 + k) for k in range(spec.cores)]
            search.search(members, f"{n} customers")
            seconds_of, found = search.ended or (spec.time_limit, search._least)
            rows.append((seconds_of, gap(found, search._least)))
        seconds, losses = np.array(rows).T
        early = int((seconds < 0.95 * spec.time_limit).sum())
        row(n, options.days, f"{seconds.mean():.1f}", early, f"{losses.mean():.3f}", f"{losses.max():.3f}")


if __name__ == "__main__":
    main()
