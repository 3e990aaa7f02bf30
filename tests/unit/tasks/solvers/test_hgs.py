"""HGS with few iterations: an answer to every feasible instance, however hard the orders are to pack."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from mcvrp.model.city import MOST_COST
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers import hgs
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.searches import fewest_vehicles, packed_vehicles
from mcvrp.tasks.solvers.solver import SolverFailed

CITY = City.uniform(60, seed=3)
HALVES = Rules((30, 70), (100, 100))  # orders of about half a vehicle
HARD = (7, 16, 19, 20)  # of 24 customers, which a thrifty run gives up
EACH_ALONE = Rules((51, 60), (100, 100))
SEARCHES = [HGS(iterations=50), HGS(iterations=50, longest_route=1e15), PyVRP(iterations=50)]


def thrifty(n: int) -> HGS:
    return HGS(**budget_for("thrifty", n).options())


def draw(rules: Rules, n: int, i: int) -> Instance:
    return InstanceStream(CITY, 1, "train", rules)(n, i)


@st.composite
def any_rules(draw: st.DrawFn) -> Rules:
    capacity = draw(st.integers(1, 200))
    least = draw(st.integers(1, capacity))
    return Rules((least, draw(st.integers(least, capacity))), (capacity, capacity + draw(st.integers(0, 50))))


@settings(max_examples=20)
@example(Rules((10, 30), (40, 60)), 24, 12)
@example(EACH_ALONE, 24, 0)
@example(Rules((100, 100), (100, 100)), 24, 0)
@example(Rules((34, 34), (100, 100)), 60, 0)
@example(HALVES, 50, 0)
@given(rules=any_rules(), n=st.integers(1, 30), i=st.integers(0, 1000))
def test_whatever_fits_is_solved(rules: Rules, n: int, i: int) -> None:
    instance = draw(rules, n, i)
    assert infeasibility(instance, thrifty(n).search(CITY, instance, i)) is None


@pytest.mark.parametrize("solver", SEARCHES)
@pytest.mark.parametrize(
    ("side", "whole"), [(1e-3, False), (5, False), *product((1e3, 9e4, 2e5, 1e8), (False, True))]
)
@pytest.mark.parametrize("closed", [None, 1e9, MOST_COST])
def test_costs_of_a_matrix_may_have_any_scale(
    solver: HGS | PyVRP, side: float, whole: bool, closed: float | None
) -> None:
    """Metres of a region, seconds or microseconds, with or without pairs that no road connects.

    Of one of them there is a road in one direction.
    """
    day, nodes = draw(Rules((1, 9), (30, 30)), 20, 0), np.arange(len(CITY.xy))
    matrix = CITY.costs(nodes) * side
    matrix = np.rint(matrix) if whole else matrix
    if closed:
        matrix[day.ids[0], day.ids[1]] = matrix[day.ids[1], day.ids[0]] = matrix[day.ids[2], day.ids[3]] = (
            closed
        )
    city = replace(CITY, matrix=matrix)
    answer = solver.search(city, replace(day, city_id=city.city_id), 1)
    assert infeasibility(day, answer) is None
    assert cost(city, answer) <= 1.1 * cost(CITY, thrifty(20).search(CITY, day, 1)) * side


@pytest.mark.parametrize("i", range(3))
def test_routes_are_as_cheap_as_those_of_pyvrp_where_directions_differ(i: int) -> None:
    """Legs of one direction would cost far more: the costs there and back have nothing in common."""
    city = City(CITY.xy, np.random.default_rng(i).integers(1, 1000, (61, 61)).astype(float))
    instance = InstanceStream(city, 1, "train")(40, i)
    ours, theirs = (cost(city, search(iterations=500).search(city, instance, 1)) for search in (HGS, PyVRP))
    assert ours <= 1.03 * theirs


def test_a_second_run_is_as_good_as_any() -> None:
    """As PyVRP, in the mean within one per cent."""
    gaps = []
    for i in HARD:
        instance = draw(HALVES, 24, i)
        with pytest.raises(SolverFailed):
            thrifty(24)._run(CITY, instance, i, hgs.own_bound(instance), [], hard=False)
        routes = thrifty(24).search(CITY, instance, i)
        gaps.append(cost(CITY, routes) / cost(CITY, PyVRP(iterations=300).search(CITY, instance, i)) - 1)
    assert np.mean(gaps) < 0.01


@pytest.mark.parametrize(("seconds", "iterations"), [(0.1, None), (None, 5)])
def test_orders_of_a_vehicle_each_get_one(seconds: float | None, iterations: int | None) -> None:
    """HGS-CVRP's own bound is too small: the fleet is larger from the start, or rejected if it is given."""
    instance = draw(EACH_ALONE, 24, 0)
    assert hgs.own_bound(instance) < fewest_vehicles(instance) == 24
    assert len(HGS(seconds, iterations).search(CITY, instance, 1).routes) == 24
    with pytest.raises(SolverFailed, match="24 vehicles are needed at least, the fleet is 23"):
        HGS(seconds, iterations, fleet=23).search(CITY, instance, 1)


@given(rules=any_rules(), n=st.integers(1, 30), i=st.integers(0, 1000))
def test_vehicles_that_are_needed_and_enough(rules: Rules, n: int, i: int) -> None:
    instance = draw(rules, n, i)
    routes = len(random_solution(instance, i).routes)
    assert fewest_vehicles(instance) <= min(routes, packed_vehicles(instance))
    assert packed_vehicles(instance) <= n


@pytest.mark.parametrize("matrix", [False, True])
def test_orders_at_the_place_of_the_depot_have_an_answer(matrix: bool) -> None:
    """HGS-CVRP accepts no distances that are all 0; a fleet is obeyed."""
    xy = np.vstack([np.zeros((4, 2)), [[1000.0, 1000.0]]])
    city = City(xy, City.framed(xy).costs(np.arange(5)) if matrix else None, scale=1000.0)
    instance = Instance.of(city, {1: 2, 2: 2, 3: 2}, 5)
    for solver in (HGS(iterations=30), HGS(iterations=30, fleet=2, longest_route=1.0)):
        solution = solver.search(city, instance, 1)
        assert (cost(city, solution), infeasibility(instance, solution)) == (0, None)
        assert len(solution.routes) == 2


def test_a_start_with_too_many_routes_is_left_out() -> None:
    """A start may use more vehicles than the fleet has; HGS-CVRP would refuse it."""
    instance = draw(Rules(capacity=(12, 25)), 20, 0)
    alone = Solution(tuple((customer,) for customer in instance.ids.tolist()))
    solution = HGS(iterations=5).search(CITY, instance, 1, [alone])
    assert infeasibility(instance, solution) is None
    assert solution == HGS(iterations=5).search(CITY, instance, 1)
