"""PyVRP: iterated local search on integer costs, symmetric or not; what a user would pick instead of HGS."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import pyvrp
from pyvrp.stop import NoImprovement

from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.solvers.solver import SCALED, Answer, SolverFailed, best_of, checked_budget, scaled_costs


@dataclass(frozen=True)
class PyVRP:
    """PyVRP's search.

    Parameters
    ----------
    time_limit
        Seconds of processor time a run, as for HGS.
    iterations
        Iterations without improvement after which a run ends: the same answer for the same seed.
    """

    time_limit: float | None = None
    iterations: int | None = None
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
        return f"{self.version}, {budget}{without}, fleet n, {SCALED}, whole distances"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer an instance."""
        for instance in instances:
            yield best_of(self.search, city, instance, samples=samples, seed=seed)

    def search(self, city: City, instance: Instance, seed: int, starts: Sequence[Solution] = ()) -> Solution:
        """Return the best solution of one run, from the first of ``starts`` where there is one.

        Raises
        ------
        SolverFailed
            If it ends without an answer.
        """
        # the clock starts before the conversion, which is part of the run
        stop = NoImprovement(self.iterations) if self.iterations else _ProcessorTime(self.time_limit or 0.0)
        data = problem_data(city, instance)
        first = visits(data, instance, starts[0]) if starts else None
        result = pyvrp.solve(
            data, stop, seed=seed, collect_stats=False, display=False, initial_solution=first
        )
        if not result.is_feasible():
            raise SolverFailed("PyVRP found no feasible routes")
        return solution_of(instance, result.best)


def problem_data(city: City, instance: Instance) -> pyvrp.ProblemData:
    """Return the instance as PyVRP takes it: whole distances, client k - 1 is the k-th customer."""
    costs = np.rint(scaled_costs(city, instance)).astype(np.int64)
    np.fill_diagonal(costs, 0)  # staying is free: PyVRP insists
    return pyvrp.ProblemData(
        locations=[pyvrp.Location(x, y) for x, y in city.xy[instance.nodes].tolist()],
        clients=[pyvrp.Client(k, delivery=[d]) for k, d in enumerate(instance.demands.tolist(), start=1)],
        depots=[pyvrp.Depot(0)],
        vehicle_types=[pyvrp.VehicleType(instance.n, capacity=[instance.capacity])],
        distance_matrices=[costs],
        duration_matrices=[np.zeros_like(costs)],
    )


def visits(data: pyvrp.ProblemData, instance: Instance, solution: Solution) -> pyvrp.Solution:
    """Return ``solution`` as PyVRP writes it: routes of client numbers."""
    return pyvrp.Solution(data, [np.searchsorted(instance.ids, route).tolist() for route in solution.routes])


def solution_of(instance: Instance, found: pyvrp.Solution) -> Solution:
    """Return PyVRP's solution in the city's node numbers."""
    ids = instance.ids.tolist()
    return Solution.of(
        [ids[stop.idx] for stop in route.schedule() if stop.is_client()] for route in found.routes()
    )


@dataclass
class _ProcessorTime:
    """Stops after so many seconds of processor time, so that a busy machine takes nothing from a run."""

    seconds: float
    began: float = field(default_factory=time.thread_time)

    def __call__(self, best_cost: int) -> bool:
        return time.thread_time() - self.began > self.seconds
