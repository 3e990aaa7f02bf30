"""Fleet and longest route of a day: satisfied by the routes, or refused in one sentence before any work."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import Planned, plan_day, solve_day
from mcvrp.tasks.solve.kept import Rest
from mcvrp.tasks.solve.limits import require_kept, require_seconds, round_trips, too_far
from mcvrp.tasks.solve.search import _SearchClock, baseline, route, searched
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solve.unserved import require_possible
from mcvrp.tasks.solvers.solver import Limits, SolverFailed
from tests.support.solving import CITY, day_plan, one_way_city, put_day

# Customers in opposite directions: a round trip to each is 20, one route to both 40.
OPPOSITE = City(np.array([[0.0, 0], [-10, 0], [10, 0]]), origin=(-10, -10), scale=20.0)
BOTH = Instance(OPPOSITE.city_id, np.array([1, 2]), np.array([1, 1]), 5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    save_city(store, "one-way", one_way_city())
    return store


def planned(store: Store, city: str = "small", **spec: Any) -> Planned:
    """Return a day of 20 orders of demand 3 at capacity 18: at least four vehicles."""
    options = {"polish": "pyvrp", "time_limit": 0.1, **spec}
    return day_plan(store, dict.fromkeys(range(1, 21), 3), 18, city=city, **options)


def keeps(city: City, solution: Solution, fleet: int, longest: float) -> bool:
    lengths = [cost(city, Solution((path,))) for path in solution.routes]
    return len(lengths) <= fleet and max(lengths) <= longest * (1 + 1e-9)


def test_a_day_of_a_model_keeps_its_limits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of an untrained network violate them; the routes derived from them do not."""
    # of a minute, however busy the machine is
    monkeypatch.setattr(_SearchClock, "share", lambda clock: 1 / 300)
    day = planned(store, samples=4, fleet=4, longest_route=2.6, time_limit=60)
    network, _ = load_model(store, "small")
    free = day.spec.model_copy(update={"polish": "none", "fleet": None, "longest_route": None})
    sample = route(network, CITY, day.day.instance, free, rotations=1)
    assert not keeps(CITY, sample.solution, 4, 2.6)
    result = solve_day(store, day, time.monotonic())
    assert infeasibility(day.day.instance, result.solution) is None
    assert keeps(CITY, result.solution, 4, 2.6)
    note = "the routes satisfy --fleet 4 and --longest-route 2.6; the longest is"
    assert any(each.startswith(note) for each in result.summary.notes)
    assert result.summary.compared is not None
    assert result.summary.compared.label == "HGS"


@pytest.mark.parametrize(("city", "search"), [("small", "hgs"), ("one-way", "pyvrp")])
def test_a_search_without_a_model_keeps_the_limits(store: Store, city: str, search: str) -> None:
    """By default HGS searches if it supports the city; it is not compared with itself."""
    day = planned(store, city, samples=0, fleet=5, polish="local-search")
    result = solve_day(store, day, time.monotonic())
    assert (result.summary.polish, result.summary.compared) == (search, None)
    assert keeps(day.city, result.solution, 5, np.inf)


def test_the_comparison_keeps_the_limits() -> None:
    """Two routes of 20, although one of 40 is cheaper without limits."""
    free = baseline(OPPOSITE, BOTH, 0.05, 0)
    assert free.label == "HGS"
    limited = baseline(OPPOSITE, BOTH, 0.05, 0, Limits(longest_route=39.0))
    assert (limited.label, len(limited.solution.routes)) == ("HGS", 2)


def test_no_routes_within_the_limits_is_one_sentence() -> None:
    """A case that no bound detects: two vehicles suffice, one has too long a route."""
    spec = SolveSpec(samples=0, time_limit=0.05, fleet=1, longest_route=30.0)
    require_possible(Rest(OPPOSITE, Addresses.numbered(2), BOTH, spec.limits), Addresses.numbered(2), "")
    message = "no routes within --fleet 1 and --longest-route 30 were found in 0.05 s: increase"
    with pytest.raises(SolverFailed, match=f"^{message}"):
        searched(OPPOSITE, BOTH, spec)
    assert searched(OPPOSITE, BOTH, spec.model_copy(update={"longest_route": 40.0})).cost == 40.0


def test_a_start_within_the_limits_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Mock(side_effect=SolverFailed("HGS gave up"))
    monkeypatch.setattr("mcvrp.tasks.solvers.hgs.HGS.search", none)
    spec = SolveSpec(samples=0, time_limit=0.05, longest_route=30.0)
    assert searched(OPPOSITE, BOTH, spec, Solution(((1,), (2,)))).cost == 40.0
    with pytest.raises(SolverFailed, match="no routes within --longest-route 30 were found"):
        searched(OPPOSITE, BOTH, spec, Solution(((1, 2),)))


def test_distance_is_that_of_the_shortest_path() -> None:
    """In a cost matrix, a path via another customer of the day may be cheaper."""
    costs = np.array([[0.0, 1, 9], [1, 0, 1], [9, 1, 0]])
    city = City(OPPOSITE.xy, costs, origin=(-10, -10), scale=20.0)
    both = Instance(city.city_id, np.array([1, 2]), np.array([1, 1]), 5)
    # 1 + 1 to it and as much back: a lower bound, since a route visits the other once
    assert round_trips(Limits(), city, both).tolist() == [2.0, 4.0]
    assert round_trips(Limits(None, 9.0, {1: 0.25, 2: 1.0}), city, both).tolist() == [2.25, 5.5]
    alone = Instance(city.city_id, np.array([2]), np.array([1]), 5)
    assert round_trips(Limits(None, 9.0, {2: 1.0}), city, alone).tolist() == [19.0]
    # a round trip may equal the limit
    assert not too_far(Limits(longest_route=20.0), OPPOSITE, BOTH).any()
    assert too_far(Limits(longest_route=20.0 * (1 - 1e-6)), OPPOSITE, BOTH).all()
    assert too_far(Limits(None, 20.5, {1: 0.5, 2: 0.6}), OPPOSITE, BOTH).tolist() == [False, True]


def test_refused_before_the_store_is_read(store: Store) -> None:
    message = "--polish local-search does not support --fleet 4: use --polish hgs or pyvrp"
    with pytest.raises(McvrpError, match=message):
        plan_day(store, "nowhere", "small", [], 18, SolveSpec(fleet=4))
    with pytest.raises(
        McvrpError, match="--fleet 3: a total demand of 60 at a capacity of 18 needs at least 4"
    ):
        planned(store, fleet=3)


def test_a_shift_is_of_seconds() -> None:
    """One limit of the length, service only with a shift, and a city whose costs are seconds."""
    for fields, message in (
        (
            {"shift": 9.0, "longest_route": 8.0},
            "--shift 9 and --longest-route 8 both limit the length of a route",
        ),
        ({"service": 300.0}, "--service 300 counts in a shift only: give --shift, too, or omit it"),
        ({"shift": 9.0}, "--polish local-search does not support --shift 9: use"),
    ):
        with pytest.raises(McvrpError, match=message):
            require_kept(SolveSpec.model_validate(fields))
    spec = SolveSpec(shift=28800.0, service=0.0)
    with pytest.raises(
        McvrpError, match=r"costs of city 'lyon' are in m: import it .* or use --longest-route"
    ):
        require_seconds(spec, City(OPPOSITE.xy, origin=(-10, -10), scale=20.0, unit="m"), "lyon")
    require_seconds(spec, City(OPPOSITE.xy, origin=(-10, -10), scale=20.0, unit="s"), "lyon")
    require_seconds(SolveSpec(), OPPOSITE, "lyon")
