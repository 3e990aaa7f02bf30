"""Solvers whose routes are too long: savings with noise, and HGS's routes as drivers change them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mcvrp import City, Instance, Solution, cost
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.registry import SolverEntry, register
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import Answer, best_of


@dataclass(frozen=True)
class Driver:
    """HGS's routes; customers are moved, exchanged or visited out of turn until they cost 9 to 11 % more."""

    label: str = "Driver"
    version: str = "1"
    device: str = "1 CPU core"
    configuration: str = "10 % longer than HGS"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        return (best_of(self.search, city, each, samples=samples, seed=seed) for each in instances)

    def search(self, city: City, instance: Instance, seed: int) -> Solution:
        solution = HGS(**budget_for("thrifty", instance.n).options()).search(city, instance, seed)
        least, most = 1.09 * cost(city, solution), 1.11 * cost(city, solution)
        demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
        random = np.random.default_rng(seed)
        for _ in range(2000):
            routes = [list(route) for route in solution.routes]
            a, b = (routes[k] for k in random.integers(len(routes), size=2))
            i, j = int(random.integers(len(a))), int(random.integers(len(b)))
            match random.integers(3):
                case 0:
                    b.insert(j, a.pop(i))
                case 1:
                    a[i], b[j] = b[j], a[i]
                case _:
                    a.insert(0, a.pop(int(np.argmax(city.costs(np.array([0, *a]))[0, 1:]))))
            changed = Solution.of(filter(None, routes))
            fits = max(sum(demand[k] for k in route) for route in routes) <= instance.capacity
            if fits and cost(city, changed) <= most:
                solution = changed
                if cost(city, solution) >= least:
                    break
        return solution


@dataclass(frozen=True)
class NoisySavings(Driver):
    label: str = "Savings with noise"
    configuration: str = "noise 0.3"

    def search(self, city: City, instance: Instance, seed: int) -> Solution:
        return savings(city, instance, seed, 2, 0.3)[-1]


def seconds(budget: object, n: int) -> float:
    return 5e-4 * n


register("driver", SolverEntry("Driver", "imperfect:Driver", seconds=seconds))
register("noisy-savings", SolverEntry("Savings with noise", "imperfect:NoisySavings", seconds=seconds))
