"""HGS and PyVRP under limits of a day: exact in small cases, never beyond a limit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.searches import scaled_costs
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, SolverFailed, longest_route
from tests.support.optimum import SMALL, best_cost

XY = City.uniform(30, seed=1).xy
ROADS = np.random.default_rng(2).integers(1, 1000, (31, 31)).astype(float)
# Two large orders in the west, two small ones in the east: three routes cost 60, two vehicles 80.
WEST_EAST = City(np.array([[0.0, 0], [-10, 0], [-10, 0], [10, 0], [10, 0]]), origin=(-10, -10), scale=20.0)
CORNER = City(np.array([[0.0, 0], [0.1, 0], [0, 0.3]]))
ROUND = float(CORNER.legs(np.array([0, 1, 2, 0])).sum())  # one route of both customers

Keeper = type[HGS] | type[PyVRP]
KEPT: list[tuple[Keeper, City]] = [
    (HGS, City(XY)),
    (HGS, City(XY, (ROADS + ROADS.T) / 2)),
    (HGS, City(XY, ROADS)),
    (PyVRP, City(XY)),
    (PyVRP, City(XY, ROADS)),
]
each_keeper = pytest.mark.parametrize("keeper", [HGS, PyVRP])


def day(city: City, demands: list[int], capacity: int) -> Instance:
    return Instance(city.city_id, np.arange(1, len(demands) + 1), np.array(demands), capacity)  # type: ignore[arg-type]


def lengths(city: City, solution: Solution) -> list[float]:
    return [cost(city, Solution((route,))) for route in solution.routes]


@each_keeper
@pytest.mark.parametrize(("fleet", "best"), [(None, 60.0), (4, 60.0), (3, 60.0), (2, 80.0)])
def test_a_smaller_fleet_may_cost_more(keeper: Keeper, fleet: int | None, best: float) -> None:
    """Two vehicles have to cross the depot, three do not; starts of four routes are adapted."""
    instance, alone = day(WEST_EAST, [6, 6, 4, 4], 10), Solution(((1,), (2,), (3,), (4,)))
    search = keeper(iterations=50, **Limits(fleet).given)
    for starts in ([], [alone]):
        solution = search.search(WEST_EAST, instance, 1, starts)
        assert cost(WEST_EAST, solution) == best
        assert len(solution.routes) <= (fleet or 4)


@each_keeper
@pytest.mark.parametrize(
    ("share", "routes"),
    [(None, 1), (1 + 1e-6, 1), (1.0, 1), (1 - 1e-3, 2)],  # HGS prices excess: it would not notice 1e-8
)
def test_a_route_of_just_the_longest_length_is_allowed(
    keeper: Keeper, share: float | None, routes: int
) -> None:
    """Its legs are no round numbers; a bit less, and there are two routes."""
    longest = None if share is None else share * ROUND
    search = keeper(iterations=50, longest_route=longest)
    assert len(search.search(CORNER, day(CORNER, [1, 1], 10), 1).routes) == routes


@pytest.mark.parametrize(("keeper", "city"), KEPT)
@pytest.mark.parametrize("i", range(2))
def test_limits_cost_what_trying_all_says(keeper: Keeper, city: City, i: int) -> None:
    """Seven customers; the limits are those of the best routes, made a bit narrower in turn."""
    instance = InstanceStream(city, 1, "test", SMALL)(7, i)
    free = keeper(iterations=200).search(city, instance, 1)
    assert cost(city, free) == pytest.approx(best_cost(city, instance), rel=1e-6)
    longest = longest_route(city, free)
    service = {node: node % 3 * longest / 7 for node in range(1, 31)}
    for limits in (
        Limits(longest_route=longest),
        Limits(longest_route=0.98 * longest),
        Limits(None, longest, service),
        Limits(len(free.routes) + 1, 1.3 * longest, service),
        Limits(fleet=len(free.routes) - 1),
    ):
        expected = best_cost(city, instance, limits)
        if np.isinf(expected):
            with pytest.raises(SolverFailed, match=r"no feasible|vehicles are needed"):
                keeper(iterations=200, **limits.given).search(city, instance, 1)
        else:
            solution = keeper(iterations=200, **limits.given).search(city, instance, 1)
            assert cost(city, solution) == pytest.approx(expected, rel=1e-6)


def test_the_diagonal_of_a_matrix_costs_nothing() -> None:
    """HGS-CVRP would pay the diagonal of the matrix for each vehicle that stays at the depot."""
    waiting = np.where(np.eye(5, dtype=bool), 1000.0, WEST_EAST.costs(np.arange(5)))
    city = City(WEST_EAST.xy, waiting, origin=(-10, -10), scale=20.0)
    for demands in ([1, 1, 1, 1], [6, 6, 4, 4]):
        instance = day(city, demands, 10)
        solution = HGS(iterations=50).search(city, instance, 1)
        assert cost(city, solution) == best_cost(city, instance)


def test_a_leg_without_a_road_does_not_define_the_scale() -> None:
    """The others do not round to nothing beside it."""
    city = City(XY, np.where(ROADS[15, 16] == ROADS, 1e9, ROADS + 0.5))
    instance = day(city, [1] * 16, 18)
    costs, _ = scaled_costs(city, instance)
    allowed = city.costs(instance.nodes) < 1e9
    np.fill_diagonal(allowed, True)
    assert costs[allowed].max() == pytest.approx(1e4)
    assert costs.max() == costs[~allowed].min() == pytest.approx(1e6)


@settings(max_examples=40)
@given(
    kept=st.sampled_from(KEPT),
    n=st.integers(1, 12),
    seed=st.integers(0, 1000),
    fleet=st.none() | st.integers(1, 6),
    share=st.none() | st.floats(0.3, 1.2),
    stop=st.sampled_from([0.0, 0.03, 0.2]),
    from_start=st.booleans(),
)
def test_no_answer_breaks_a_limit(
    kept: tuple[Keeper, City],
    n: int,
    seed: int,
    fleet: int | None,
    share: float | None,
    stop: float,
    from_start: bool,
) -> None:
    """For any limits, and from a start that breaks them: routes within them, or none and no warning."""
    keeper, city = kept
    instance = InstanceStream(city, 1, "test", SMALL)(n, seed)
    start = random_solution(instance, seed)
    longest = None if share is None else share * longest_route(city, start)
    service = {int(node): stop * longest for node in instance.ids} if stop and longest else None
    search = keeper(iterations=20, **Limits(fleet, longest, service).given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            solution = search.search(city, instance, seed, [start] if from_start else [])
        except SolverFailed:
            return
    assert infeasibility(instance, solution) is None
    assert fleet is None or len(solution.routes) <= fleet
    stops = [len(route) * stop for route in solution.routes]
    spent = [
        length + stop * (longest or 0) for length, stop in zip(lengths(city, solution), stops, strict=True)
    ]
    assert longest is None or max(spent) <= longest * (1 + 2e-9)


def test_an_answer_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that PyVRP accepts by rounding is rejected by its exact length."""
    monkeypatch.setattr("mcvrp.tasks.solvers.pyvrp._PARTS", 4)  # so coarse that all legs are rounded to 0
    with pytest.raises(
        SolverFailed, match=r"a route of 0\.7\d* sides of the city's square, 0\.65 are the most"
    ):
        PyVRP(iterations=50, longest_route=0.65).search(CORNER, day(CORNER, [1, 1], 10), 1)


def test_limits_say_which_is_broken() -> None:
    both, apart = Solution(((1, 2),)), Solution(((1,), (2,)))
    assert NO_LIMITS.broken(CORNER, apart) is None
    assert Limits(fleet=1).broken(CORNER, both) is None
    assert Limits(fleet=1).broken(CORNER, apart) == "more routes (2) than vehicles (1)"
    assert Limits(longest_route=0.6).broken(CORNER, apart) is None
    assert str(Limits(longest_route=0.5).broken(CORNER, apart)).startswith("a route of 0.6 sides")
    assert longest_route(CORNER, apart) == max(lengths(CORNER, apart)) == 0.6
