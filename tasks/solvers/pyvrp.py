"""PyVRP: iterated local search on integer costs, symmetric or not."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import pyvrp
from pyvrp.exceptions import PenaltyBoundWarning
from pyvrp.stop import NoImprovement

from mcvrp.model.problem import COST_TOLERANCE, City, Instance, Solution
from mcvrp.tasks.solvers.solver import (
    NO_LIMITS,
    SCALED,
    Answer,
    Limits,
    SolverFailed,
    best_of,
    checked_budget,
    in_fleet,
    scaled_costs,
)

_PARTS = round(1 / COST_TOLERANCE)  # units of the longest route in which durations are counted


@dataclass(frozen=True)
class PyVRP:
    """PyVRP's search.

    Parameters
    ----------
    time_limit
        Seconds of processor time per run.
    iterations
        Iterations without improvement after which a run ends; deterministic for a seed.
    fleet, longest_route
        As in `Limits`.
    """

    time_limit: float | None = None
    iterations: int | None = None
    fleet: int | None = None
    longest_route: float | None = None
    label: str = field(default="PyVRP", init=False)
    device: str = field(default="1 CPU core", init=False)
    version: str = field(default=f"pyvrp {version('pyvrp')}", init=False)

    def __post_init__(self) -> None:
        checked_budget(self.time_limit, self.iterations)

    @property
    def configuration(self) -> str:
        """Program, budget, fleet and scale in one line."""
        without = " without improvement" if self.iterations is not None else ""
        budget = checked_budget(self.time_limit, self.iterations)
        limits = f"fleet {self.fleet or 'n'}"
        if self.longest_route is not None:
            limits += f", routes up to {self.longest_route:,.10g}"
        return f"{self.version}, {budget}{without}, {limits}, {SCALED}, whole distances"

    @property
    def limits(self) -> Limits:
        """Limits of its routes beside the capacity."""
        return Limits(self.fleet, self.longest_route)

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance."""
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, started from the first of ``starts`` if any.

        A start may violate the limits; if it has more routes than vehicles, those with the least load are
        appended to others, which are then overloaded.

        Raises
        ------
        SolverFailed
            If the run ends without an answer, or violates a limit.
        """
        # the clock starts before the conversion, which is part of the run
        stop = NoImprovement(self.iterations) if self.iterations else _ProcessorTime(self.time_limit or 0.0)
        data = problem_data(city, instance, self.limits)
        first = visits(data, instance, in_fleet(instance, starts[0], self.fleet)) if starts else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PenaltyBoundWarning)  # infeasible results are handled below
            result = pyvrp.solve(
                data, stop, seed=seed, collect_stats=False, display=False, initial_solution=first
            )
        if not result.is_feasible():
            raise SolverFailed("PyVRP found no feasible routes")
        solution = solution_of(instance, result.best)
        if broken := self.limits.broken(city, solution):
            raise SolverFailed(f"PyVRP found {broken}")
        return solution


def problem_data(city: City, instance: Instance, limits: Limits = NO_LIMITS) -> pyvrp.ProblemData:
    """Return the instance as PyVRP's data: integer distances, client k - 1 is the k-th customer.

    Lengths for a route limit are durations, in finer units than the distances and each rounded down, so that
    rounding makes no route infeasible. A route that is too long by at most one unit per leg is accepted here;
    callers check the exact limit.
    """
    costs = np.rint(scaled_costs(city, instance)).astype(np.int64)
    lengths, longest = np.zeros_like(costs), dict[str, int]()
    if limits.longest_route is not None:
        parts = city.costs(instance.nodes) * (_PARTS / limits.longest_route)
        lengths = np.minimum(parts, _PARTS + 2).astype(np.int64)  # a leg may exceed the limit by itself
        np.fill_diagonal(lengths, 0)
        longest["shift_duration"] = _PARTS + 1  # COST_TOLERANCE
    vehicles = min(instance.n, limits.fleet or instance.n)
    return pyvrp.ProblemData(
        locations=[pyvrp.Location(x, y) for x, y in city.xy[instance.nodes].tolist()],
        clients=[pyvrp.Client(k, delivery=[d]) for k, d in enumerate(instance.demands.tolist(), start=1)],
        depots=[pyvrp.Depot(0)],
        vehicle_types=[pyvrp.VehicleType(vehicles, capacity=[instance.capacity], **longest)],
        distance_matrices=[costs],
        duration_matrices=[lengths],
    )


def visits(data: pyvrp.ProblemData, instance: Instance, solution: Solution) -> pyvrp.Solution:
    """Return ``solution`` as PyVRP's solution: routes of client numbers."""
    return pyvrp.Solution(data, [np.searchsorted(instance.ids, route).tolist() for route in solution.routes])


def solution_of(instance: Instance, solution: pyvrp.Solution) -> Solution:
    """Return PyVRP's solution in the city's node numbers."""
    ids = instance.ids.tolist()
    return Solution.of(
        [ids[stop.idx] for stop in route.schedule() if stop.is_client()] for route in solution.routes()
    )


@dataclass
class _ProcessorTime:
    """Stopping criterion of processor time, which is independent of the load of the machine."""

    seconds: float
    began: float = field(default_factory=time.thread_time)

    def __call__(self, best_cost: int) -> bool:
        return time.thread_time() - self.began > self.seconds
