"""Decomposition: parts hold each route once, and routes stay feasible, within the limits and no dearer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve import parts
from mcvrp.tasks.solve.members import members_of
from mcvrp.tasks.solve.parts import DECOMPOSITION, PartsMember, cut, in_parts
from mcvrp.tasks.solvers.budgets import tuned_budget
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.local_search import random_solution
from mcvrp.tasks.solvers.savings import savings
from mcvrp.tasks.solvers.solver import NO_LIMITS, Limits, SolverFailed, longest_route
from mcvrp.tasks.support.pool import Pool
from tests.support.solving import day_plan

LARGE = City.uniform(600, seed=3)


def instance(city: City, n: int, seed: int = 0, capacity: int = 20) -> Instance:
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(np.arange(1, city.customers + 1), n, replace=False))
    return Instance(city.city_id, ids, rng.integers(1, 10, n), capacity)  # type: ignore[arg-type]


def member(day: Instance, seed: int = 0, limits: Limits = NO_LIMITS, **more: Any) -> PartsMember:
    return PartsMember.of("hgs", LARGE, day, limits, seed, **more)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 120), st.integers(1, 9), st.integers(0, 2**32), st.integers(9, 90))
def test_parts_hold_each_route_once(n: int, count: int, seed: int, capacity: int) -> None:
    """The sizes differ by no more than the largest route per halving."""
    day = instance(LARGE, n, seed, capacity)
    whole = random_solution(day, seed)
    found = cut(LARGE, whole, count, np.random.default_rng(seed))
    assert sorted(route for part in found for route in part.routes) == sorted(whole.routes)
    assert 1 <= len(found) <= count
    assert all(part.routes for part in found)
    again = cut(LARGE, whole, count, np.random.default_rng(seed))
    assert again == found
    longest, halvings = max(map(len, whole.routes)), int(np.ceil(np.log2(count)))
    if len(whole.routes) >= 2 * count:
        largest = max(sum(map(len, part.routes)) for part in found)
        assert largest <= n / count + halvings * longest


def test_parts_are_neighbours_and_differ_from_round_to_round() -> None:
    """Two clusters are two parts along almost every direction; on a uniform city the cut changes."""
    angles = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    ring = 0.05 * np.column_stack([np.cos(angles), np.sin(angles)])
    city = City(np.vstack([[0.5, 0.5], 0.1 + ring, 0.9 + ring]))
    routes = Solution(tuple((k, k + 1) for k in range(1, 41, 2)))
    cuts = [cut(city, routes, 2, np.random.default_rng(k)) for k in range(20)]
    apart = [{max(map(max, part.routes)) for part in each} == {20, 40} for each in cuts]
    assert np.mean(apart) >= 0.8
    whole = random_solution(instance(LARGE, 200), 1)
    assert len({tuple(cut(LARGE, whole, 4, np.random.default_rng(k))) for k in range(10)}) == 10


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.integers(0, 9))
def test_a_round_keeps_the_limits_and_costs_no_more(seed: int, fleet: bool, longest: bool, more: int) -> None:
    day = instance(LARGE, 60, seed)
    (start,) = savings(LARGE, day, 0, 1)
    service = dict.fromkeys(day.ids.tolist(), 0.05) if longest and more % 2 else None
    length = longest_route(LARGE, start, service) if longest else None
    limits = Limits(len(start.routes) + more if fleet else None, length, service)
    searching = member(day, seed % 1000, limits=limits)
    number = {node: k for k, node in enumerate(searching.nodes)}
    small = Solution(tuple(tuple(number[node] for node in route) for route in start.routes))
    with Pool(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_PART", 15)
        patch.setattr(parts, "_whole", None)  # it is not called
        found = searching._round(pool, searching.options | {"time_limit": 0.1}, 1, [small])
    assert infeasibility(searching.instance, found) is None
    assert searching.limits.broken(searching.city, found) is None
    assert cost(searching.city, found) <= cost(searching.city, small)


def test_a_part_whose_search_fails_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    day = instance(LARGE, 60)
    searching = member(day)
    start = random_solution(searching.instance, 1)

    def fail(*_: object) -> Solution:
        raise SolverFailed("gave up")

    monkeypatch.setattr(PartsMember, "solve_slice", fail)
    monkeypatch.setattr(parts, "_PART", 15)
    with Pool(1) as pool:
        assert searching._round(pool, {"time_limit": 0.1}, 1, [start]) == start.in_order
        with pytest.raises(SolverFailed, match=r"^gave up$"):
            searching._round(pool, {"time_limit": 0.1}, 0, [start])


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_the_search_improves_from_slice_to_slice(cores: int) -> None:
    """In the numbers of the whole city; routes in numbers too small for parts are searched as a whole."""
    for day, least in ((instance(LARGE, 450), 2), (instance(LARGE, 450, capacity=2000), 1)):
        prices = []
        for found in member(day, cores=cores, label=DECOMPOSITION).found(time.monotonic() + 60.0):
            assert infeasibility(day, found.solution) is None
            assert found.by == DECOMPOSITION
            prices.append(cost(LARGE, found.solution))
            if len(prices) == least:  # on a busy machine after some time
                break
        assert prices == sorted(set(prices), reverse=True)
        assert len(prices) == least


def test_a_slice_has_the_settings_of_its_own_length() -> None:
    """Not those of the whole time limit, which are for a longer search."""
    searching = member(instance(LARGE, 450))
    for seconds in (0.1, 1.0, 10.0):
        search = searching.entry.search(**searching.options | {"time_limit": seconds})
        assert isinstance(search, HGS)
        assert search.for_size(450) == HGS(**tuned_budget("hgs", 450, seconds).options())


def test_large_days_are_decomposed_unless_a_solver_is_named(tmp_path: Any) -> None:
    store = Store.open(tmp_path)
    save_city(store, "large", LARGE)
    orders = dict.fromkeys(range(1, 501), 3)
    for by, label in (("auto", DECOMPOSITION), ("hgs", "HGS")):
        day = day_plan(store, orders, city="large", model=None, by=by, time_limit=3.0, threads=2)
        assert day.rest is not None
        assert {member.label for member in members_of(store, day, day.rest)} == {label}
    assert in_parts("hgs", 500, 15.0)
    assert in_parts("hgs", 1000, 60.0)
    assert not any((in_parts("hgs", 499, 1.0), in_parts("hgs", 600, 30.0), in_parts("pyvrp", 1000, 10.0)))
