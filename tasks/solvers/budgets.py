"""Budgets of one instance: a flat time, iterations, or a named budget that depends on its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mcvrp.tasks.solvers.solver import checked_budget

BudgetName = Literal["converged", "thrifty"]
HGS_POPULATION, HGS_GRANULAR = 25, 20  # HGS-CVRP's own smallest population, and neighbours
# Customers, and measured seconds of an iteration with 10 neighbours (the last row is extrapolated).
_STEP_SECONDS = ((20, 6e-5), (50, 1.6e-4), (100, 5e-4), (200, 1.9e-3), (400, 1.1e-2), (1000, 0.11))


@dataclass(frozen=True)
class Budget:
    """A time limit or iterations without improvement, and how the search goes about it.

    The fields are those of `tasks.solvers.hgs.HGS`, of which other solvers take some.
    """

    time_limit: float | None = None
    iterations: int | None = None
    population: int | None = None
    granular: int | None = None

    @property
    def description(self) -> str:
        """The budget in one line, as a label carries it."""
        words = checked_budget(self.time_limit, self.iterations)
        words += "" if self.population is None else f", population {self.population}"
        return words if self.granular is None else f"{words}, {self.granular} neighbours"

    def options(self) -> dict[str, Any]:
        """Return the budget as arguments of HGS."""
        return dict(vars(self))

    def seconds(self, n: int) -> float:
        """Return about how long HGS takes for ``n`` customers on one core of 2020s hardware."""
        if self.time_limit is not None:
            return self.time_limit
        # before the first iteration, 4 mu random solutions are improved: each takes about as long
        steps = (self.iterations or 0) + 4 * (self.population or HGS_POPULATION)
        sizes, seconds = zip(*_STEP_SECONDS, strict=True)
        step = np.exp(np.interp(np.log(n), np.log(sizes), np.log(seconds)))
        return float(steps * step * (self.granular or HGS_GRANULAR) / 10)


def budget_for(budget: BudgetName | Budget, n: int) -> Budget:
    """Return the budget of that name for ``n`` customers; one that is given is the same for all.

    Both count iterations, so that a label is the same on every machine. ``converged`` gives labels
    as good as 5 s do, for a fraction of the time; a small population and few neighbours are what a
    short search wants, and an iteration takes longer the larger the instance, so that beyond 181
    customers there are fewer of them. ``thrifty`` is for many labels at little cost. BENCHMARKS.md
    has what they cost and give at each size.
    """
    if isinstance(budget, Budget):
        return budget
    if budget == "thrifty":
        return Budget(iterations=max(30, n // 4), population=6, granular=8)
    return Budget(iterations=max(1, min(8 * n, 48_000_000 // n**2)), population=10, granular=12)
