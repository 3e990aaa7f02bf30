"""Small instances with random feasible solutions for the tests of the mathematics, and set decisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mcvrp.model.features import Batch
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.decide import Decision


def random_solution(instance: Instance, rng: np.random.Generator) -> Solution:
    """Return a feasible solution: customers in random order, a new route when full or by chance."""
    routes: list[list[int]] = [[]]
    load = 0
    for position in rng.permutation(instance.n):
        demand = int(instance.demands[position])
        if load + demand > instance.capacity or rng.random() < 0.1:
            routes.append([])
            load = 0
        routes[-1].append(int(instance.ids[position]))
        load += demand
    return Solution.of(routes)


def batch_of(pairs: list[tuple[Instance, Solution]], angle: float | None = None) -> Batch:
    """Return the padded batch of ``pairs``, built the slow and obvious way."""
    nodes = max(instance.n for instance, _ in pairs) + 1
    tokens = max(len(solution.path) for _, solution in pairs)
    ids, demands = torch.zeros(len(pairs), nodes, dtype=torch.long), torch.zeros(len(pairs), nodes)
    path = torch.zeros(len(pairs), tokens, dtype=torch.long)
    for row, (instance, solution) in enumerate(pairs):
        position = {int(node): k for k, node in enumerate(instance.nodes)}
        ids[row, : instance.n + 1] = torch.tensor(instance.nodes)
        demands[row, 1 : instance.n + 1] = torch.tensor(instance.demands.astype(np.float32))
        path[row, : len(solution.path)] = torch.tensor([position[int(node)] for node in solution.path])
    return Batch(
        ids,
        demands,
        torch.tensor([float(instance.capacity) for instance, _ in pairs]),
        torch.tensor([instance.n + 1 for instance, _ in pairs]),
        path,
        torch.tensor([len(solution.path) for _, solution in pairs]),
        None if angle is None else torch.full((len(pairs),), angle),
    )


@pytest.fixture(scope="session")
def city() -> City:
    return City.uniform(60, seed=3)


@pytest.fixture(scope="session")
def pairs(city: City) -> list[tuple[Instance, Solution]]:
    """Six instances of three sizes, each with a random feasible solution."""
    rng = np.random.default_rng(0)
    stream = InstanceStream(city, 1, "train")
    instances = [stream(n, i) for n in (20, 23, 30) for i in range(2)]
    return [(instance, random_solution(instance, rng)) for instance in instances]


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Decisions to come, in place of those that the costs would give; True where the list is empty."""
    coming: list[bool] = []

    def decide(pairs: object, **bounds: float) -> Decision:
        return Decision(coming.pop(0) if coming else True, ("so it was said",), (), {})

    monkeypatch.setattr(trial, "decide", decide)
    return coming
