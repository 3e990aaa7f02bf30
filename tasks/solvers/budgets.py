"""Search budgets: a time limit, a number of iterations, or a named budget that depends on the size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mcvrp.tasks.solvers.searches import checked_budget

BudgetName = Literal["converged", "thrifty"]
HGS_POPULATION, HGS_GRANULAR = 25, 20  # HGS-CVRP's default population size and neighbours
# Customers and measured seconds per iteration with 10 neighbours (the last row is extrapolated).
_STEP_SECONDS = ((20, 6e-5), (50, 1.6e-4), (100, 5e-4), (200, 1.9e-3), (400, 1.1e-2), (1000, 0.11))


@dataclass(frozen=True)
class Budget:
    """A time limit or iterations without improvement, with settings of the search.

    The fields are those of `tasks.solvers.hgs.HGS`; other solvers take some of them.
    """

    time_limit: float | None = None
    iterations: int | None = None
    population: int | None = None
    granular: int | None = None

    @property
    def description(self) -> str:
        """The budget in one line, as stored in labels."""
        text = checked_budget(self.time_limit, self.iterations)
        text += "" if self.population is None else f", population {self.population}"
        return text if self.granular is None else f"{text}, {self.granular} neighbours"

    def options(self) -> dict[str, Any]:
        """Return the budget as arguments of HGS."""
        return dict(vars(self))

    def seconds(self, n: int) -> float:
        """Return the estimated seconds of HGS for ``n`` customers on one core of 2020s hardware."""
        if self.time_limit is not None:
            return self.time_limit
        # HGS first improves 4 mu random solutions, each of which takes about as long as an iteration
        steps = (self.iterations or 0) + 4 * (self.population or HGS_POPULATION)
        sizes, seconds = zip(*_STEP_SECONDS, strict=True)
        step = np.exp(np.interp(np.log(n), np.log(sizes), np.log(seconds)))
        return float(steps * step * (self.granular or HGS_GRANULAR) / 10)


def budget_for(budget: BudgetName | Budget, n: int) -> Budget:
    """Return the budget of a name for ``n`` customers; a `Budget` is returned unchanged.

    Both names set iterations, so that labels are equal on every machine. ``converged`` gives labels as good
    as those of 5 s in a fraction of the time; short searches work best with a small population and few
    neighbours. Iterations take longer for larger instances, so there are fewer beyond 181 customers.
    ``thrifty`` is for many labels at little cost. BENCHMARKS.md has time and quality at each size.
    """
    if isinstance(budget, Budget):
        return budget
    if budget == "thrifty":
        return Budget(iterations=max(30, n // 4), population=6, granular=8)
    return Budget(iterations=max(1, min(8 * n, 48_000_000 // n**2)), population=10, granular=12)


def tuned(entry: Any, n: int, seconds: float) -> dict[str, Any]:
    """Interim."""
    return {"population": 4, "granular": 10}
