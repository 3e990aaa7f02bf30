"""Registry of solvers: name, options, estimated time and class of each.

Solvers are imported when they are made: a worker loads only the one that it runs, and no torch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.solvers.budgets import Budget
from mcvrp.tasks.solvers.solver import Costs, Limits, Search, Solver, require_costs
from mcvrp.tasks.support.registry import Registry

# overhead per answer: generating the instance, writing
_WRITE_SECONDS, _WRITE_SECONDS_A_CUSTOMER = 3e-4, 2e-6
_SETTINGS = ("population", "granular", "offspring", "savings")
_TAKEN = {"time_limit", "iterations", "fleet", *_SETTINGS, "tuned", "budget"}


@dataclass(frozen=True)
class SolverEntry:
    """Solver for labels and benchmarks.

    Workers receive the entry itself, so that only the driver needs the registration.

    Parameters
    ----------
    takes
        Arguments of the class that settings may set: time_limit (seconds per run), iterations, fleet,
        population, granular, offspring, savings, tuned (as in HGS), budget (a named combination of them).
    seconds
        Estimated seconds on one core for a budget and a number of customers; a module-level function, as
        the entry is pickled.
    costs
        Supported cities: "any", or "straight" (no cost matrix).
    starts
        Number of solutions that its method ``search`` can start from, 0 without such a method.
    limits
        The `Limits` that ``search`` supports; also arguments of the class.
    text
        Description in the tables of docs/labels.md and docs/benchmark.md, which are generated.
    """

    label: str  # in tables
    where: str  # class of the solver, "module:Class", importable by workers
    takes: tuple[str, ...] = ()
    seconds: Callable[[Budget, int], float] = Budget.seconds
    costs: Costs = "any"
    starts: int = 0
    limits: tuple[str, ...] = ()
    text: str = ""

    def __post_init__(self) -> None:
        """Raise McvrpError if it takes a setting that no spec has, or a field cannot be sent to workers."""
        if unknown := sorted(set(self.takes) - _TAKEN):
            known = ", ".join(sorted(_TAKEN))
            raise McvrpError(f"the solver {self.label} takes {', '.join(unknown)}: name some of {known}")
        for name, value in vars(self).items():
            try:
                pickle.dumps(value)
            except Exception as error:
                raise McvrpError(
                    f"the field {name} of the solver {self.label} cannot be sent to workers: use a function "
                    "of a module instead of a lambda or closure"
                ) from error

    def make(self, **options: Any) -> Solver:
        """Return the solver with those of ``options`` that it takes; None: the solver's default.

        Raises
        ------
        SolverMissing
            If its program is not installed.
        McvrpError
            If the class does not exist or rejects an option.
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
        supported = {key: value for key, value in options.items() if key in takes and value is not None}
        return kind(**supported)

    def estimate(self, budget: Budget, n: int) -> float:
        """Return the estimated seconds of one core for an instance of ``n`` customers, overhead included."""
        return self.seconds(budget, n) + (_WRITE_SECONDS + _WRITE_SECONDS_A_CUSTOMER * n)

    def search(self, **options: Any) -> Search:
        """Return the solver as a search from solutions, with the limits that it supports."""
        assert self.starts, f"{self.label} takes no initial solutions"
        search: Search = self._made(self.takes + self.limits, options)  # type: ignore[assignment]
        return search

    def keeps(self, limits: Limits) -> bool:
        """Return whether its searches support all ``limits`` that are set."""
        return limits.given.keys() <= set(self.limits)

    def require_costs(self, city: City) -> None:
        """Raise McvrpError if it does not support the costs of ``city``."""
        require_costs(self.label, self.costs, city)


def lkh_seconds(budget: Budget, n: int) -> float:
    """Return the estimated seconds of LKH-3: the start of a process, then its trials, n by default.

    Measured processor time: 0.06 s at n = 20, 0.11 at 50, 0.22 at 100, 0.68 at 200,
    3.9 at 400.
    """
    return 0.04 + n * (8e-4 + 1.5e-5 * (budget.iterations or n))


SOLVERS = Registry(
    "solver",
    {
        "hgs": SolverEntry(
            "HGS",
            "mcvrp.tasks.solvers.hgs:HGS",
            takes=("time_limit", "iterations", "fleet", *_SETTINGS, "budget", "tuned"),
            starts=8,  # in short searches better than the best alone, and than all of 64 (BENCHMARKS.md)
            limits=("fleet", "longest_route", "service"),
            text="HGS-CVRP, the hybrid genetic search of the paper's labels",
        ),
        "pyvrp": SolverEntry(
            "PyVRP",
            "mcvrp.tasks.solvers.pyvrp:PyVRP",
            takes=("time_limit", "iterations", "granular", "savings", "tuned"),
            starts=1,
            limits=("fleet", "longest_route", "service"),
            text="PyVRP, iterated local search: the usual alternative in practice",
        ),
        "lkh3": SolverEntry(
            "LKH-3",
            "mcvrp.tasks.solvers.lkh3:LKH3",
            takes=("iterations",),
            seconds=lkh_seconds,
            costs="straight",
            text="LKH-3; iterations are its `MAX_TRIALS` (default: as many as customers), minimum fleet",
        ),
    },
)
USUAL_SEARCH = "hgs"
register = SOLVERS.register


def takers(option: str) -> tuple[str, ...]:
    """Return the names of the solvers that take ``option``."""
    return tuple(name for name, entry in SOLVERS.items() if option in entry.takes)


def finishers() -> tuple[str, ...]:
    """Return the names of the solvers that can start from solutions."""
    return tuple(name for name, entry in SOLVERS.items() if entry.starts)
