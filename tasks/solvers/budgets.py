"""Search budgets: a time limit, a number of iterations, or a named budget that depends on the size.

HGS-CVRP's own settings are made for minutes. `tuned_budget` has those that are best for a size and a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mcvrp.model.errors import McvrpError

BudgetName = Literal["converged", "thrifty"]
HGS_POPULATION, HGS_GRANULAR = 25, 20  # HGS-CVRP's default population size and neighbours
# Customers and measured seconds per iteration with 10 neighbours (the last row is extrapolated).
_STEP_SECONDS = ((20, 6e-5), (50, 1.6e-4), (100, 5e-4), (200, 1.9e-3), (400, 1.1e-2), (1000, 0.11))


# Best settings of HGS by customers and seconds of processor time of one core (BENCHMARKS.md, Settings):
# population, neighbours, offspring, savings solutions. Where HGS-CVRP's own were as good, they stay.
_TUNED = (
    ((20, 0.01), (8, 10, 40, 1)),
    ((20, 0.1), (25, 20, 40, 1)),
    ((50, 0.001), (25, 20, 40, 1)),
    ((50, 0.002), (2, 10, 40, 1)),
    ((50, 0.01), (4, 10, 20, 1)),
    ((50, 0.05), (8, 10, 20, 8)),
    ((50, 0.2), (16, 10, 40, 8)),
    ((50, 1.0), (25, 20, 40, 1)),
    ((100, 0.005), (8, 10, 40, 1)),
    ((100, 0.01), (2, 10, 40, 1)),
    ((100, 0.05), (2, 10, 10, 8)),
    ((100, 0.2), (8, 10, 40, 1)),
    ((100, 1.0), (25, 20, 40, 1)),
    ((200, 0.01), (25, 20, 40, 1)),
    ((200, 0.02), (2, 10, 40, 8)),
    ((200, 0.1), (2, 10, 10, 8)),
    ((200, 0.5), (4, 10, 20, 8)),
    ((200, 1.0), (8, 10, 20, 1)),
    ((200, 2.0), (8, 10, 20, 1)),
    ((200, 10.0), (25, 20, 40, 1)),
    ((300, 2.0), (8, 10, 20, 1)),
    ((400, 0.05), (2, 15, 40, 8)),
    ((400, 0.2), (2, 15, 20, 8)),
    ((400, 1.0), (2, 10, 10, 8)),
    ((400, 5.0), (4, 10, 20, 8)),
    ((400, 10.0), (4, 10, 20, 8)),
    ((1000, 0.5), (2, 10, 40, 8)),
    ((1000, 2.0), (2, 10, 10, 8)),
    ((1000, 15.0), (2, 10, 40, 8)),
)
TUNED = "tuned settings 3"  # another number with another table: both are other searches
# PyVRP's own 50 neighbours are better in longer searches.
_PYVRP_NEIGHBOURS, _PYVRP_SAVINGS, _PYVRP_SECONDS = 20, 1, 10.0


@dataclass(frozen=True)
class Budget:
    """A time limit or iterations without improvement, with settings of the search.

    The fields are those of `tasks.solvers.hgs.HGS`; other solvers take some of them.
    """

    time_limit: float | None = None
    iterations: int | None = None
    population: int | None = None
    granular: int | None = None
    offspring: int | None = None
    savings: int | None = None
    tuned: str | None = None  # solver whose settings are those of `tuned_budget`, with a time limit

    @property
    def description(self) -> str:
        """The budget in one line, as stored in labels."""
        settings = settings_text(self.population, self.granular, self.offspring, self.savings)
        return checked_budget(self.time_limit, self.iterations) + settings

    def sized(self, n: int) -> Budget:
        """Return the budget for ``n`` customers: with the settings, if they are tuned."""
        if self.tuned is None or self.time_limit is None:
            return self
        return tuned_budget(self.tuned, n, self.time_limit)

    def options(self) -> dict[str, Any]:
        """Return the budget as arguments of HGS."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def seconds(self, n: int) -> float:
        """Return the estimated seconds of HGS for ``n`` customers on one core of 2020s hardware."""
        if self.time_limit is not None:
            return self.time_limit
        # HGS first improves 4 mu random solutions, each of which takes about as long as an iteration
        steps = (self.iterations or 0) + 4 * (self.population or HGS_POPULATION)
        sizes, seconds = zip(*_STEP_SECONDS, strict=True)
        step = np.exp(np.interp(np.log(n), np.log(sizes), np.log(seconds)))
        return float(steps * step * (self.granular or HGS_GRANULAR) / 10)


def tuned_budget(solver: str, n: int, seconds: float) -> Budget:
    """Return the settings of ``solver`` for ``n`` customers in ``seconds`` of processor time of one core.

    Those of HGS are the settings of the nearest cell of a table, by the logarithms of the customers and of
    the seconds per squared customer, as twice the customers take about four times as long; at least one
    savings solution, so that a short search has an answer. Solvers other than HGS and PyVRP have their own
    settings.
    """
    checked_budget(seconds, None)
    if solver == "hgs":
        size, time = (np.log([cell for cell, _ in _TUNED]) - np.log([n, seconds])).T
        nearest = np.hypot(size, time - 2 * size).argmin()
        population, granular, offspring, savings = _TUNED[nearest][1]
        return Budget(seconds, None, population, granular, offspring, savings)
    if solver == "pyvrp":
        near = _PYVRP_NEIGHBOURS if seconds <= _PYVRP_SECONDS else None
        return Budget(seconds, granular=near, savings=_PYVRP_SAVINGS)
    return Budget(seconds)


def settings_text(
    population: int | None, granular: int | None, offspring: int | None, savings: int | None
) -> str:
    """Return the settings that are not None in words, each after a comma."""
    text = "" if population is None else f", population {population}"
    text += "" if granular is None else f", {granular} neighbours"
    text += "" if offspring is None else f", {offspring} offspring"
    return text if savings is None else f"{text}, {savings} savings start{'s' * (savings != 1)}"


def checked_budget(time_limit: float | None, iterations: int | None) -> str:
    """Return the budget in words: "5 s", "30 iterations"; McvrpError unless exactly one is given."""
    if (time_limit is None) == (iterations is None):
        raise McvrpError("a solver takes either a time limit or iterations: give one of the two")
    if time_limit is not None:
        if not 0 < time_limit < float("inf"):
            raise McvrpError(f"a time limit must be a positive number of seconds, not {time_limit}")
        return f"{time_limit:g} s"
    if iterations is not None and iterations < 1:
        raise McvrpError(f"a solver needs at least one iteration, not {iterations}")
    return f"{iterations} iterations"


def budget_for(budget: BudgetName | Budget, n: int) -> Budget:
    """Return the budget of a name for ``n`` customers; a `Budget` is returned, with tuned settings set.

    Both names set iterations, so that labels are equal on every machine. ``converged`` gives labels as good
    as those of 5 s in a fraction of the time; short searches work best with a small population and few
    neighbours. Iterations take longer for larger instances, so there are fewer beyond 181 customers.
    ``thrifty`` is for many labels at little cost. BENCHMARKS.md has time and quality at each size.
    """
    if isinstance(budget, Budget):
        return budget.sized(n)
    if budget == "thrifty":
        return Budget(iterations=max(30, n // 4), population=6, granular=8)
    return Budget(iterations=max(1, min(8 * n, 48_000_000 // n**2)), population=10, granular=12)
