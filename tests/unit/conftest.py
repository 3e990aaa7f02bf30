"""Small instances with random feasible solutions for the tests of the mathematics, and set decisions."""

from __future__ import annotations

import pytest

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.decide import Decision
from mcvrp.tasks.solvers.local_search import random_solution


@pytest.fixture(scope="session")
def city() -> City:
    return City.uniform(60, seed=3)


@pytest.fixture(scope="session")
def pairs(city: City) -> list[tuple[Instance, Solution]]:
    stream = InstanceStream(city, 1, "train")
    instances = [stream(n, i) for n in (20, 23, 30) for i in range(2)]
    return [(instance, random_solution(instance, k)) for k, instance in enumerate(instances)]


@pytest.fixture
def impatient(forked_members: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches for a day end soon after their last improvement."""
    monkeypatch.setattr("mcvrp.tasks.solve.portfolio._PATIENCE_A_CUSTOMER", 0.01)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Decisions to come, instead of those that the costs would give; True if the list is empty."""
    coming: list[bool] = []

    def decide(pairs: object, **bounds: float) -> Decision:
        return Decision(coming.pop(0) if coming else True, ("so it was said",), (), {})

    monkeypatch.setattr(trial, "decide", decide)
    return coming
