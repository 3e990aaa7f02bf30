"""Registry of solvers: what each is called, what it takes, about how long it needs, where its class is.

Nothing here imports a solver: a worker loads the one that it runs, and none of those that need torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.solvers.budgets import Budget
from mcvrp.tasks.solvers.solver import USE_PYVRP, Costs, Limits, Search, Solver, require_costs
from mcvrp.tasks.support.registry import Registry

_WRITE_SECONDS, _WRITE_SECONDS_A_CUSTOMER = 3e-4, 2e-6  # of an answer: to draw the instance, to write


@dataclass(frozen=True)
class SolverEntry:
    """A solver that labels can be made with, and a benchmark can have as a row.

    Workers get the entry itself, so that only the process which asks for a solver has to know it by name.

    Parameters
    ----------
    label
        Name in tables.
    where
        Its class, "module:Class", which workers can import.
    takes
        Arguments of the class that settings may give: time_limit (seconds a run), iterations, fleet,
        population, granular (of the kind of HGS), budget (a named one, which is made of the others).
    seconds
        About how long it takes on one core for a budget and a number of customers; a function of a
        module, as it travels with the entry.
    costs
        Which cities it takes: "any", "symmetric" or "straight" (no matrix of costs).
    starts
        How many solutions its method ``search`` can go on from, 0 where it has none: such a solver
        finishes what a model has begun.
    limits
        Which of `Limits` ``search`` keeps: arguments of the class, too.
    """

    label: str
    where: str
    takes: tuple[str, ...] = ()
    seconds: Callable[[Budget, int], float] = Budget.seconds
    costs: Costs = "any"
    starts: int = 0
    limits: tuple[str, ...] = ()

    def make(self, **options: Any) -> Solver:
        """Return the solver with those of ``options`` that it takes; None is its own default.

        Raises
        ------
        SolverMissing
            If its program is not installed.
        McvrpError
            If there is no such class, or it refuses an option.
        """
        return self._made(self.takes, options)

    def _made(self, takes: tuple[str, ...], options: dict[str, Any]) -> Solver:
        module, _, name = self.where.partition(":")
        try:
            kind = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise McvrpError(
                f"the solver {self.label} is not at {self.where} ({error}): correct its entry, or remove it"
            ) from error
        given = {key: value for key, value in options.items() if key in takes and value is not None}
        solver: Solver = kind(**given)
        return solver

    def estimate(self, budget: Budget, n: int) -> float:
        """Return about how many seconds one core takes for an instance of ``n`` customers, all told."""
        return self.seconds(budget, n) + (_WRITE_SECONDS + _WRITE_SECONDS_A_CUSTOMER * n)

    def search(self, **options: Any) -> Search:
        """Return the solver as a search that goes on from solutions, and keeps those limits that it can."""
        assert self.starts, f"{self.label} takes no solutions to go on from"
        search: Search = self._made(self.takes + self.limits, options)  # type: ignore[assignment]
        return search

    def keeps(self, limits: Limits) -> bool:
        """Return whether its searches keep all ``limits`` that there are."""
        return limits.given.keys() <= set(self.limits)

    def require_costs(self, city: City, hint: str = USE_PYVRP) -> None:
        """Raise McvrpError for a city whose costs it does not take."""
        require_costs(self.label, self.costs, city, hint)


def lkh_seconds(budget: Budget, n: int) -> float:
    """Return about how long LKH-3 takes: a process to start, then its trials, n of them by default.

    Processor time measured, beside other work: 0.06 s at n = 20, 0.11 at 50, 0.22 at 100, 0.68 at 200,
    3.9 at 400.
    """
    return 0.04 + n * (8e-4 + 1.5e-5 * (budget.iterations or n))


SOLVERS = Registry(
    "solver",
    {
        "hgs": SolverEntry(
            "HGS",
            "mcvrp.tasks.solvers.hgs:HGS",
            takes=("time_limit", "iterations", "fleet", "population", "granular", "budget"),
            costs="symmetric",
            starts=8,  # in short searches better than the best alone, and than all of 64 (BENCHMARKS.md)
            limits=("fleet", "longest_route"),
        ),
        "pyvrp": SolverEntry(
            "PyVRP",
            "mcvrp.tasks.solvers.pyvrp:PyVRP",
            takes=("time_limit", "iterations"),
            starts=1,
            limits=("fleet", "longest_route"),
        ),
        "lkh3": SolverEntry(
            "LKH-3",
            "mcvrp.tasks.solvers.lkh3:LKH3",
            takes=("iterations", "runs"),
            seconds=lkh_seconds,
            costs="straight",
        ),
    },
)
register = SOLVERS.register


def make(name: str, **options: Any) -> Solver:
    """Return the solver ``name`` of the registry, as `SolverEntry.make` does."""
    return SOLVERS[name].make(**options)


def takers(option: str) -> tuple[str, ...]:
    """Return the names of the solvers that take ``option``."""
    return tuple(name for name, entry in SOLVERS.items() if option in entry.takes)


def finishers() -> tuple[str, ...]:
    """Return the names of the solvers that can go on from solutions."""
    return tuple(name for name, entry in SOLVERS.items() if entry.starts)
