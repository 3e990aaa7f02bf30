"""Search budgets: a time limit, a number of iterations, or a named budget that depends on the size.

HGS-CVRP's own settings are made for minutes. `settings_for` has those that are best for a size and a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mcvrp.tasks.solvers.searches import checked_budget

BudgetName = Literal["converged", "thrifty"]
HGS_POPULATION, HGS_GRANULAR = 25, 20  # HGS-CVRP's default population size and neighbours
# Customers and measured seconds per iteration with 10 neighbours (the last row is extrapolated).
_STEP_SECONDS = ((20, 6e-5), (50, 1.6e-4), (100, 5e-4), (200, 1.9e-3), (400, 1.1e-2), (1000, 0.11))


@dataclass(frozen=True)
class Settings:
    """Settings of a search; None: the solver's own. The fields are those of its class."""

    solver: str
    population: int | None = None
    granular: int | None = None
    elite: int | None = None
    savings: int | None = None

    def options(self) -> dict[str, Any]:
        """Return the settings as arguments of the solver."""
        return {name: value for name, value in vars(self).items() if name != "solver"}


# Best settings of HGS by customers and seconds of processor time of one core (make bench-tuning): population,
# neighbours, elite, savings solutions.
_TUNED = (
    ((20, 0.01), (4, 10, 4, 1)),
    ((100, 0.02), (4, 10, 4, 8)),
    ((100, 0.2), (8, 10, 4, 1)),
    ((400, 1.0), (2, 10, 4, 8)),
    ((1000, 5.0), (4, 10, 4, 8)),
)
# PyVRP's own 50 neighbours are better in longer searches.
_PYVRP_NEIGHBOURS, _PYVRP_SAVINGS, _PYVRP_SECONDS = 20, 1, 10.0


def settings_of(solver: str, n: int, seconds: float) -> Settings:
    """Return the settings of ``solver`` for ``n`` customers in ``seconds`` of processor time of one core.

    Those of HGS are the settings of the nearest cell of a table, by the logarithms of customers and seconds;
    at least one savings solution, so that a short search has an answer.
    Solvers other than HGS and PyVRP have their own only.
    """
    if solver == "hgs":
        distances = [math.hypot(math.log(n / size), math.log(seconds / time)) for (size, time), _ in _TUNED]
        population, granular, elite, savings = _TUNED[int(np.argmin(distances))][1]
        return Settings(solver, population, granular, elite, savings)
    if solver == "pyvrp":
        near = _PYVRP_NEIGHBOURS if seconds <= _PYVRP_SECONDS else None
        return Settings(solver, granular=near, savings=_PYVRP_SAVINGS)
    return Settings(solver)


def settings_for(n: int, seconds: float, symmetric: bool) -> Settings:
    """Return the best solver and its settings for ``n`` customers in ``seconds`` of one core.

    PyVRP if costs depend on the direction, which HGS does not support, otherwise HGS.
    """
    return settings_of("hgs" if symmetric else "pyvrp", n, seconds)


def settings_text(
    population: int | None = None,
    granular: int | None = None,
    elite: int | None = None,
    savings: int | None = None,
) -> str:
    """Return the settings that are not None in words, each after a comma."""
    text = "" if population is None else f", population {population}"
    text += "" if granular is None else f", {granular} neighbours"
    text += "" if elite is None else f", {elite} elite"
    return text if savings is None else f"{text}, {savings} savings start{'s' * (savings != 1)}"


@dataclass(frozen=True)
class Budget:
    """A time limit or iterations without improvement, with settings of the search.

    The fields are those of `tasks.solvers.hgs.HGS`; other solvers take some of them.
    """

    time_limit: float | None = None
    iterations: int | None = None
    population: int | None = None
    granular: int | None = None
    elite: int | None = None
    savings: int | None = None

    @property
    def description(self) -> str:
        """The budget in one line, as stored in labels."""
        settings = settings_text(self.population, self.granular, self.elite, self.savings)
        return checked_budget(self.time_limit, self.iterations) + settings

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
