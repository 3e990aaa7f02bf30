"""Re-construction of parts: disjoint and large enough, never worse, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.reconstruction import Reconstructed, parts_of
from tests.support.answers import require_answer
from tests.support.networks import small_solver

CITY = City.uniform(30, seed=1)
ONE_WAY = City(CITY.xy, np.random.default_rng(1).integers(1, 1000, (31, 31)).astype(float))
STREAM = InstanceStream(CITY, 1, "test", Rules(capacity=(12, 25)))
INSTANCES = [STREAM(n, 0) for n in (20, 7, 28)]


@given(n=st.integers(1, 30), least=st.integers(1, 35), seed=st.integers(0, 1000), data=st.data())
@settings(deadline=None)
def test_parts_share_no_route_and_are_large_enough(
    n: int, least: int, seed: int, data: st.DataObject
) -> None:
    instance = STREAM(n, seed)
    solution = random_solution(instance, seed)
    order = data.draw(st.permutations(instance.ids.tolist()))
    parts = parts_of(CITY, solution, least, order)
    used = [route for part in parts for route in part.routes]
    assert len(used) == len(set(used))
    assert set(used) <= set(solution.routes)
    sizes = [sum(map(len, part.routes)) for part in parts]
    assert all(size >= min(least, n) for size in sizes)
    assert n - sum(sizes) < least
    assert order[0] in {customer for route in parts[0].routes for customer in route}


def test_a_part_is_of_neighbouring_routes() -> None:
    """Four pairs of customers in the corners of a square: a part takes corners side by side."""
    corners = [(0.9, 0.9), (0.1, 0.9), (0.1, 0.1), (0.9, 0.1)]
    xy = [(0.5, 0.5), *(p for x, y in corners for p in ((x, y), (x, y + 0.01)))]
    city = City(np.array(xy))
    solution = Solution(((1, 2), (3, 4), (5, 6), (7, 8)))
    for first in range(1, 9):
        (one, two) = parts_of(city, solution, 4, [first, *(k for k in range(1, 9) if k != first)])
        assert ((1, 2) in one.routes) != ((5, 6) in one.routes)
        assert set(one.routes) | set(two.routes) == set(solution.routes)


@pytest.mark.parametrize("city", [CITY, ONE_WAY], ids=["lines", "one-way"])
def test_more_rounds_are_never_worse_than_fewer_or_none(city: City) -> None:
    instances = [InstanceStream(city, 1, "test", STREAM.rules)(n, 0) for n in (20, 7, 28)]
    costs = [[answer.costs.min() for answer in small_solver(city).solve(city, instances, samples=2, seed=1)]]
    for rounds in (1, 3, 8):
        rebuilt = Reconstructed(small_solver(city), rounds, part_customers=10, part_samples=6)
        answers = list(rebuilt.solve(city, instances, samples=2, seed=1))
        for instance, answer in zip(instances, answers, strict=True):
            require_answer(city, instance, answer)
        costs.append([answer.costs[0] for answer in answers])
    assert (np.diff(costs, axis=0) <= 1e-9).all()
    assert sum(costs[-1]) < 0.99 * sum(costs[0])  # an untrained network finds much to improve


def test_an_answer_is_the_same_for_a_seed_and_alone() -> None:
    """Nothing depends on the other instances of a call, up to the last bits of the network's arithmetic."""

    def answers(*which: int, seed: int = 1) -> list[Solution | None]:
        rebuilt = Reconstructed(small_solver(CITY), 3, part_customers=10, part_samples=6)
        solved = rebuilt.solve(CITY, [INSTANCES[k] for k in which], samples=2, seed=seed)
        return [answer.solution for answer in solved]

    together = answers(0, 1, 2)
    assert answers(0, 1, 2) == together
    assert answers(2) == together[2:]
    assert answers(2, seed=5) != together[2:]
    assert answers() == []
