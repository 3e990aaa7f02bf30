"""Savings solutions and settings by size and time: every order served, whatever the city and the orders."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from mcvrp.model.city import MOST_COST
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.budgets import Budget, tuned_budget
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.registry import SOLVERS, USUAL_SEARCH
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, Search

UNIFORM = City.uniform(1000, seed=3)
ROADS = np.random.default_rng(2).integers(1, 1000, (61, 61)).astype(float)
CITIES = {
    "uniform": City(UNIFORM.xy[:61]),
    "one place": City.framed(np.vstack([[0.0, 0.0], np.ones((60, 2))])),
    "all at the depot": City.framed(np.zeros((61, 2))),
    "far outlier": City.framed(np.vstack([UNIFORM.xy[:60], [1e6, 1e6]])),
    "symmetric matrix": City(UNIFORM.xy[:61], ROADS + ROADS.T),
    "directed matrix": City(UNIFORM.xy[:61], ROADS),
    "no costs": City(UNIFORM.xy[:61], np.zeros((61, 61))),
}

FREE = ("all at the depot", "no costs")  # HGS-CVRP refuses distances of 0 only


def day(city: City, demands: list[int], capacity: int) -> Instance:
    ids = np.arange(len(demands)) + city.customers - len(demands) + 1  # with the outlier
    return Instance(city.city_id, ids.astype(np.uint32), np.array(demands, dtype=np.uint16), capacity)


@pytest.mark.parametrize("city", CITIES.values(), ids=CITIES)
@given(demands=st.lists(st.integers(1, 20), min_size=1, max_size=60), room=st.integers(0, 80))
@example(demands=[1], room=0)
@example(demands=[20] * 60, room=0)
@example(demands=[11] * 60, room=0)
@example(demands=[1] * 60, room=80)
def test_every_order_is_served_within_the_capacity(city: City, demands: list[int], room: int) -> None:
    instance = day(city, demands, max(demands) + room)
    alone = Solution.of([[node] for node in instance.ids])
    solutions = savings(city, instance, 1, 3)
    for solution in solutions:
        assert infeasibility(instance, solution) is None
    if city.matrix is None:  # with the triangle inequality no merge costs more
        assert cost(city, solutions[0]) <= cost(city, alone) * (1 + 1e-9)
    assert solutions == savings(city, instance, 1, 3)
    assert solutions[:2] == savings(city, instance, 1, 2)


def test_noise_gives_other_solutions_by_seed() -> None:
    instance = InstanceStream(UNIFORM, 1, "test")(200, 0)
    drawn = [solution for seed in (1, 2) for solution in savings(UNIFORM, instance, seed, 3)]
    assert len({solution.in_order for solution in drawn}) == 5  # the first has no noise
    costs = np.array([cost(UNIFORM, solution) for solution in drawn])
    assert costs.max() < 1.1 * costs.min()
    assert costs.max() < 0.5 * cost(UNIFORM, random_solution(instance, 1))


def test_a_leg_without_a_road_makes_no_other_merge_cheaper() -> None:
    """Crossings cost more than two ways to the depot; what is a rounding of them is none of the others."""
    xy = np.array([[0.0, 0], [10, 0], [-10, 0], [0, 10], [0, -10], [10, 1], [-10, 1]])
    costs = np.hypot(*(xy[:, None] - xy[None]).transpose(2, 0, 1))
    costs[1:, 1:][costs[1:, 1:] > 5] = 60
    routes = []
    for far in (60.0, MOST_COST):
        costs[1, 2] = costs[2, 1] = far
        city = City.framed(xy, costs)
        (solution,) = savings(city, day(city, [1] * 6, 6), 1, 1)
        routes.append(solution.routes)
    assert len(routes[0]) == 4
    assert routes[0] == routes[1]


def test_directed_routes_take_the_cheaper_direction() -> None:
    city = CITIES["directed matrix"]
    (solution,) = savings(city, day(city, [1] * 30, 10), 1, 1)
    for route in solution.routes:
        assert cost(city, Solution((route,))) <= cost(city, Solution((route[::-1],)))


def test_a_ring_that_is_driven_in_one_direction_is_one_route() -> None:
    """In any other order it is driven more than once: of a mean of both directions all legs cost the same."""
    ring = np.arange(11)
    city = City(UNIFORM.xy[:11], ((ring[None] - ring[:, None]) % 11).astype(np.float64))
    (solution,) = savings(city, day(city, [1] * 10, 10), 1, 1)
    assert solution.routes == (tuple(range(1, 11)),)


def tuned_search(city: City, n: int, seconds: float, limits: Limits = NO_LIMITS) -> Search:
    """Return the default search as a day and the benchmark make it."""
    budget = tuned_budget(USUAL_SEARCH, n, seconds)
    return SOLVERS[USUAL_SEARCH].search(**budget.options(), **limits.given)


@pytest.mark.parametrize("city", [CITIES[name] for name in CITIES if name not in FREE])
@pytest.mark.parametrize("n", [1, 2, 60])
@pytest.mark.parametrize("seconds", [1e-6, 0.01])
@pytest.mark.parametrize("capacity", [5, 10, 1000])
def test_tuned_searches_solve_what_fits(city: City, n: int, seconds: float, capacity: int) -> None:
    instance = day(city, [5] * n, capacity)
    solution = tuned_search(city, n, seconds).search(city, instance, 1)
    assert infeasibility(instance, solution) is None


@pytest.mark.parametrize("search", [HGS(0.05, savings=8), PyVRP(0.05, savings=8)])
def test_savings_are_starts_and_count_to_the_time(search: HGS | PyVRP) -> None:
    """A run that has no time for more returns at most what the best of them costs."""
    instance = InstanceStream(UNIFORM, 1, "test")(1000, 1)
    seconds = []
    for _ in range(3):  # a collection of garbage may fall into one of them
        began = time.thread_time()
        solution = search.search(UNIFORM, instance, 1)
        seconds.append(time.thread_time() - began)
    assert min(seconds) < 0.5
    best = min(cost(UNIFORM, each) for each in savings(UNIFORM, instance, 1, 8))
    assert cost(UNIFORM, solution) <= best * (1 + 1e-9)
    assert "8 savings starts" in search.configuration


@given(n=st.integers(1, 10_000), seconds=st.floats(1e-6, 1e6))
def test_every_size_and_time_has_settings(n: int, seconds: float) -> None:
    hgs = tuned_budget("hgs", n, seconds)
    assert HGS(**hgs.options()) == HGS(seconds, tuned=True).for_size(n)
    assert min(hgs.population or 0, hgs.granular or 0) >= 2
    assert hgs.savings
    assert Budget(seconds, tuned="hgs").sized(n) == hgs
    assert tuned_budget("lkh3", n, seconds) == Budget(seconds)
