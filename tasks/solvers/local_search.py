"""Local search (PyVRP's) on each sample of the model, or on random solutions, to a local optimum."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyvrp
from pyvrp.search import OPERATORS, compute_neighbours
from pyvrp.search._search import LocalSearch

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility, require_instances
from mcvrp.model.random import philox_key, philox_order, philox_uniforms
from mcvrp.tasks.solvers.pyvrp import problem_data, solution_of, visits
from mcvrp.tasks.solvers.solver import ONE_CORE, Answer

if TYPE_CHECKING:
    from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver

_SEARCH = f"the local search of pyvrp {version('pyvrp')}"
_NEW_ROUTE = 0.1  # probability of a new route although the order fits


@dataclass(frozen=True, eq=False)
class Polished:
    """FM-MCVRP with local search on each sample, independently of the others."""

    solver: FmMcvrpSolver

    @property
    def label(self) -> str:
        return f"{self.solver.label} + local search"

    @property
    def version(self) -> str:
        return self.solver.version

    @property
    def device(self) -> str:
        """Devices of decoding and local search."""
        device = self.solver.device
        return device if device == ONE_CORE else f"{device}, then {ONE_CORE}"

    @property
    def configuration(self) -> str:
        """Samples and local search in one line."""
        return f"{self.solver.configuration}, each sample polished by {_SEARCH}"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance, each sample at most as expensive as the model's.

        Its seconds are its share of the total core time of decoding plus its local search.
        """
        if not instances:
            return
        start = time.perf_counter()
        decoded = self.solver.decoded(city, instances, samples, seed)
        share = (time.perf_counter() - start) * self.solver.cores / len(instances)
        for instance, drawn in zip(instances, decoded, strict=True):
            began = time.perf_counter()
            polished = polish(city, instance, [drawn.solution(sample) for sample in range(samples)])
            costs = np.array([cost(city, solution) for solution in polished])
            best = canonical(city, polished[int(costs.argmin())])
            yield Answer(best, costs, share + time.perf_counter() - began)


@dataclass(frozen=True)
class RandomStarts:
    """Local search on random solutions, as a baseline without a model."""

    label: ClassVar[str] = "Random solutions + local search"
    device: ClassVar[str] = ONE_CORE
    version: ClassVar[str] = f"pyvrp {version('pyvrp')}"
    configuration: ClassVar[str] = f"random solutions, each polished by {_SEARCH}"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer per instance, the best of random solutions ``seed`` to ``seed + samples - 1``."""
        require_instances(city, instances)
        for instance in instances:
            began = time.perf_counter()
            improved, solutions = _local_search(city, instance), list[Solution]()
            costs, elapsed = np.empty(samples), np.empty(samples)
            for sample in range(samples):
                solutions.append(improved(random_solution(instance, seed + sample).in_order))
                costs[sample] = cost(city, solutions[-1])
                elapsed[sample] = time.perf_counter() - began
            best = canonical(city, solutions[int(costs.argmin())])
            yield Answer(best, costs, float(elapsed[-1]), elapsed=elapsed)


def random_solution(instance: Instance, seed: int) -> Solution:
    """Return a feasible solution: customers in random order, new routes when full or at random."""
    stream = (seed, instance.n)
    order = philox_order(philox_key("random solution", "order"), stream, instance.n)
    chances = philox_uniforms(philox_key("random solution", "routes"), stream, instance.n)
    routes: list[list[int]] = [[]]
    load = 0
    for position, chance in zip(order.tolist(), chances.tolist(), strict=True):
        demand = int(instance.demands[position])
        if load + demand > instance.capacity or chance < _NEW_ROUTE:
            routes.append([])
            load = 0
        routes[-1].append(int(instance.ids[position]))
        load += demand
    return Solution.of(routes)


def polish(city: City, instance: Instance, solutions: Sequence[Solution]) -> list[Solution]:
    """Return each of ``solutions`` after local search, feasible and at most as expensive."""
    improved = cache(_local_search(city, instance))
    return [improved(solution.in_order) for solution in solutions]


def _local_search(city: City, instance: Instance) -> Callable[[Solution], Solution]:
    """Return the local search for solutions of ``instance``.

    Operators and the 50 neighbours are PyVRP's defaults, in a fixed order, so that the result depends on the
    solution only.
    """
    data = problem_data(city, instance)
    search = LocalSearch(data, compute_neighbours(data))
    for operator in OPERATORS:
        if operator.supports(data):
            search.add_operator(operator(data))
    most = pyvrp.PenaltyParams().max_penalty  # so high that no move overloads a vehicle
    price = pyvrp.CostEvaluator([most], most, most)

    def improved(solution: Solution) -> Solution:
        result = solution_of(instance, search(visits(data, instance, solution), price, exhaustive=True))
        worse = infeasibility(instance, result) or cost(city, result) >= cost(city, solution)
        return solution if worse else result

    return improved
