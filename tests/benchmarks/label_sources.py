"""Sources of imperfect labels: heuristics from poor to good, and routes as drivers change them.

Each is a function of the city, the instance and a seed, and returns a feasible solution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.labels.schema import DRIVEN, SOLVED, Label
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.labels import write_mix
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.savings import savings
from tests.benchmarks.common import Split, instances_of
from tests.support.labels import sweep

Source = Callable[[City, Instance, int], Solution]
_MOVES = 2000  # of a disturbed solution, at most


def noisy_savings(city: City, instance: Instance, seed: int, noise: float) -> Solution:
    """Return a savings solution, with a random factor of 1 ± ``noise`` for the cost of each pair."""
    return savings(city, instance, seed, 2 if noise else 1, noise)[-1]


def nearest_neighbour(city: City, instance: Instance, seed: int) -> Solution:
    """Return routes that always visit the nearest customer that fits next."""
    costs, waiting, routes = city.costs(instance.nodes), set(range(1, instance.n + 1)), list[list[int]]()
    while waiting:
        at, room, route = 0, instance.capacity, list[int]()
        while near := [k for k in waiting if instance.demands[k - 1] <= room]:
            at = min(near, key=lambda k: costs[at, k])
            route.append(int(instance.nodes[at]))
            room -= int(instance.demands[at - 1])
            waiting.remove(at)
        routes.append(route)
    return Solution.of(routes)


def two_opt(city: City, solution: Solution) -> Solution:
    """Return ``solution`` with each route improved by reversals until none helps."""
    return Solution.of(_two_opt(city, list(route)) for route in solution.routes)


def _two_opt(city: City, route: list[int]) -> list[int]:
    nodes = np.array([0, *route])
    costs = city.costs(nodes)
    order = list(range(1, len(nodes)))
    improved = True
    while improved:
        improved = False
        for i in range(len(order)):
            for j in range(i + 1, len(order)):
                before, first = (order[i - 1] if i else 0), order[i]
                last, after = order[j], (order[j + 1] if j + 1 < len(order) else 0)
                change = costs[before, last] + costs[first, after] - costs[before, first] - costs[last, after]
                if change < -1e-12:
                    order[i : j + 1] = order[i : j + 1][::-1]
                    improved = True
    return [int(nodes[k]) for k in order]


def hgs(city: City, instance: Instance, seed: int) -> Solution:
    """Return the solution of HGS with the budget `thrifty`."""
    return HGS(**budget_for("thrifty", instance.n).options()).search(city, instance, seed)


def driven(city: City, instance: Instance, seed: int, excess: float) -> Solution:
    """Return HGS's routes, changed as drivers do until they cost ``excess`` (relative) more.

    A customer is moved to another route, two are exchanged, or a route begins at its farthest customer.
    """
    solution = hgs(city, instance, seed)
    routes, random = [list(route) for route in solution.routes], np.random.default_rng(seed)
    demand = dict(zip(instance.ids.tolist(), instance.demands.tolist(), strict=True))
    least, most = (cost(city, solution) * (1 + excess * share) for share in (0.9, 1.1))
    for _ in range(_MOVES):
        changed = [route for route in _changed(city, routes, random) if route]
        price = cost(city, Solution.of(changed))
        if price > most or max(sum(demand[k] for k in route) for route in changed) > instance.capacity:
            continue
        routes = changed
        if price >= least:
            break
    return Solution.of(routes)


def _changed(city: City, routes: Sequence[list[int]], random: np.random.Generator) -> list[list[int]]:
    changed = [list(route) for route in routes]
    kind = random.integers(3)
    a, b = (changed[k] for k in random.integers(len(changed), size=2))
    i, j = int(random.integers(len(a))), int(random.integers(len(b)))
    if kind == 0:
        b.insert(j, a.pop(i))
    elif kind == 1:
        a[i], b[j] = b[j], a[i]
    else:
        far = int(np.argmax(city.costs(np.array([0, *a]))[0, 1:]))
        a.insert(0, a.pop(far))
    return changed


SOURCES: dict[str, Source] = {
    **{f"savings, noise {noise:g}": partial(noisy_savings, noise=noise) for noise in (0.0, 0.1, 0.3, 0.6)},
    "sweep": lambda city, instance, seed: sweep(city, instance),
    "nearest neighbour": nearest_neighbour,
    "HGS, thrifty": hgs,
    **{f"driven, {excess:.0%} longer": partial(driven, excess=excess) for excess in (0.02, 0.05, 0.1, 0.2)},
}


def labels_of(
    source: str, city: City, n: int, count: int, *, split: Split = "train", first: int = 0
) -> Iterator[Label]:
    """Yield the labels ``first`` to ``first + count - 1`` of a size by ``source``, a key of `SOURCES`."""
    for i, instance in enumerate(instances_of(city, n, count, split=split, first=first), first):
        solution = canonical(city, SOURCES[source](city, instance, i))
        kind = DRIVEN if source.startswith("driven") else SOLVED
        yield Label(i, instance, solution, cost(city, solution), kind, source, "1", i, "", 0.0, "")


def write_dataset(store: Store, city: City, name: str, labels: Sequence[Label]) -> None:
    """Write ``labels`` as the dataset ``name``, unless it is there."""
    write_mix(store, city, name, (), labels)
