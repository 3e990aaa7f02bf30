"""Samples of the model, each polished by PyVRP's local search down to a local optimum of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import pyvrp
from pyvrp.search import OPERATORS, compute_neighbours
from pyvrp.search._search import LocalSearch

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.pyvrp import problem_data, solution_of, visits
from mcvrp.tasks.solvers.solver import Answer

_ONE_CORE = "1 CPU core"


@dataclass(frozen=True, eq=False)
class Polished:
    """FM-MCVRP whose samples are improved one by one: each is what it would be without the others.

    Parameters
    ----------
    solver
        Makes the samples.
    """

    solver: FmMcvrpSolver

    @property
    def label(self) -> str:
        """Name in the tables."""
        return f"{self.solver.label} + local search"

    @property
    def version(self) -> str:
        """Name and version of the model."""
        return self.solver.version

    @property
    def device(self) -> str:
        """Device that decoding and polishing run on."""
        device = self.solver.device
        return device if device == _ONE_CORE else f"{device}, then {_ONE_CORE}"

    @property
    def configuration(self) -> str:
        """Samples and their polishing in one line."""
        search = f"the local search of pyvrp {version('pyvrp')}"
        return f"{self.solver.configuration}, each sample polished by {search}"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        """Yield one answer an instance, each sample no worse than the model's.

        Its seconds are its share of the decoding of all, and its own polishing.

        Raises
        ------
        McvrpError
            If the model does not know the city, or more samples are asked than the strategy has answers.
        """
        if not instances:
            return
        start = time.perf_counter()
        decoded = self.solver.decoded(city, instances, samples, seed)
        share = (time.perf_counter() - start) / len(instances)
        for instance, found in zip(instances, decoded, strict=True):
            began = time.perf_counter()
            polished = polish(city, instance, [found.solution(sample) for sample in range(samples)])
            costs = np.array([cost(city, solution) for solution in polished])
            best = canonical(city, polished[int(costs.argmin())])
            yield Answer(best, costs, share + time.perf_counter() - began)


def polish(city: City, instance: Instance, solutions: Sequence[Solution]) -> list[Solution]:
    """Return each of ``solutions`` after local search, no worse and feasible; equal ones are searched once.

    Moves, and the 50 neighbours that they are tried with, are those of PyVRP's own search. They are
    tried in a fixed order, so that what comes of a solution depends on nothing else.
    """
    data = problem_data(city, instance)
    search = LocalSearch(data, compute_neighbours(data))
    for operator in OPERATORS:
        if operator.supports(data):
            search.add_operator(operator(data))
    most = pyvrp.PenaltyParams().max_penalty  # so dear that no move overloads a vehicle
    price = pyvrp.CostEvaluator([most], most, most)

    def improved(solution: Solution) -> Solution:
        found = solution_of(instance, search(visits(data, instance, solution), price, exhaustive=True))
        worse = infeasibility(instance, found) or cost(city, found) >= cost(city, solution)
        return solution if worse else found

    once: dict[Solution, Solution] = {}
    polished = []
    for solution in solutions:
        same = Solution(tuple(sorted(solution.routes)))
        if same not in once:
            once[same] = improved(same)
        polished.append(once[same])
    return polished
