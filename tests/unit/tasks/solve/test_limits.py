"""Fleet and longest route of a day: satisfied by the routes, or refused in one sentence before any work."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import solve_day
from mcvrp.tasks.solve.kept import Rest
from mcvrp.tasks.solve.limits import limits_text, require_supported, round_trips, too_far, within_length
from mcvrp.tasks.solve.member import Found, SearchMember
from mcvrp.tasks.solve.plan import Planned
from mcvrp.tasks.solve.portfolio import Portfolio
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solve.unserved import require_possible
from mcvrp.tasks.solvers.solver import Limits, SolverFailed, route_lengths
from tests.support.solving import day_plan

pytestmark = pytest.mark.usefixtures("impatient")
# Customers in opposite directions: a round trip to each is 20, one route to both 40.
OPPOSITE = City(np.array([[0.0, 0], [-10, 0], [10, 0]]), origin=(-10, -10), scale=20.0)
BOTH = Instance(OPPOSITE.city_id, np.array([1, 2]), np.array([1, 1]), 5)


def planned(store: Store, city: str = "small", **spec: Any) -> Planned:
    """Return a day of 20 orders of demand 3 at capacity 18: at least four vehicles."""
    return day_plan(store, dict.fromkeys(range(1, 21), 3), 18, city=city, **{"time_limit": 20.0, **spec})


def keeps(city: City, solution: Solution, fleet: int, longest: float) -> bool:
    lengths = [cost(city, Solution((path,))) for path in solution.routes]
    return len(lengths) <= fleet and max(lengths) <= longest * (1 + 1e-9)


@pytest.mark.parametrize(
    ("city", "model", "by"),
    [
        ("small", "small", "auto"),
        ("small", None, "hgs"),
        ("one-way", None, "auto"),
        ("one-way", None, "hgs"),
        ("one-way", None, "pyvrp"),
    ],
)
def test_a_day_keeps_its_limits(store: Store, city: str, model: str | None, by: str) -> None:
    """Whoever searches, and with costs that depend on the direction."""
    longest = "2.6min" if city == "one-way" else 2.6
    day = planned(store, city, model=model, by=by, samples=4, fleet=4, longest_route=longest)
    result = solve_day(store, day, time.monotonic())
    assert infeasibility(day.day.instance, result.solution) is None
    assert keeps(day.city, result.solution, 4, 2.6)
    longest = "2.6 min" if city == "one-way" else "2.600"
    note = f"the routes satisfy --fleet 4 and --longest-route {longest}; the longest is"
    assert any(each.startswith(note) for each in result.notes)


def limited(start: Solution | None = None, seconds: float = 30.0, **limits: float) -> Portfolio:
    """Return the portfolio of HGS for customers in opposite directions, after its search."""
    portfolio = Portfolio(OPPOSITE, BOTH, Limits(**limits), seconds, time.monotonic())  # type: ignore[arg-type]
    if start:
        portfolio.take(Found("start", start))
    member = SearchMember.of("hgs", OPPOSITE, BOTH, portfolio.limits, 0)
    portfolio.search([member], "a day")
    return portfolio


def test_no_routes_within_the_limits_is_one_sentence() -> None:
    """A case that no bound detects: two vehicles suffice, one has too long a route."""
    require_possible(Rest(OPPOSITE, BOTH, Limits(1, 30.0)), "", Addresses.numbered(2))
    message = r"no routes within --fleet 1 and --longest-route 30\.000 were found in 1 s.*: increase"
    with pytest.raises(SolverFailed, match=f"^{message}"):
        limited(seconds=1.0, fleet=1, longest_route=30.0)
    assert cost(OPPOSITE, limited(fleet=1, longest_route=40.0).solution or Solution(())) == 40.0


def test_a_start_within_the_limits_is_an_answer() -> None:
    apart, together = Solution(((1,), (2,))), Solution(((1, 2),))
    for portfolio in (limited(apart, longest_route=30.0), limited(together, longest_route=30.0)):
        assert portfolio.solution is not None
        assert portfolio.solution.in_order == apart
    assert set(limited(together, longest_route=30.0).findings) == {"HGS"}


def test_a_route_that_is_too_long_is_cut_where_it_has_to_be() -> None:
    """So that each part fits in, and no two of a route that follow one another would together."""
    city = City.framed(np.random.default_rng(3).random((31, 2)))
    whole, most = Solution((tuple(range(1, 21)), tuple(range(21, 31)))), Limits(fleet=1, longest_route=3.0)
    parts = within_length(whole, most, city).routes
    assert [node for part in parts for node in part] == list(range(1, 31))
    assert route_lengths(city, Solution(parts)).max() <= 3.0 < route_lengths(city, whole).max()
    for part, following in itertools.pairwise(parts):
        assert following[0] == 21 or route_lengths(city, Solution(((*part, following[0]),)))[0] > 3.0


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


@pytest.mark.parametrize(
    ("given", "unit", "number", "text"),
    [
        ("45km", "m", 45_000, "--longest-route 45 km"),
        ("45 km", "km", 45, "--longest-route 45 km"),
        ("1.5mi", "m", 2414.016, "--longest-route 2.41 km"),
        ("900m", "km", 0.9, "--longest-route 0.9 km"),
        ("90 min", "s", 5400, "--longest-route 1 h 30 min"),
        ("1.5h", "min", 90, "--longest-route 90 min"),
        (2.5, "unit", 2.5, "--longest-route 2.500"),
    ],
)
def test_a_length_may_have_a_unit(given: Any, unit: str, number: float, text: str) -> None:
    """It is converted to the unit of the city."""
    spec = SolveSpec(longest_route=given).in_unit(unit)
    assert spec.longest_route == pytest.approx(number)
    assert limits_text(spec.limits, unit) == text


@pytest.mark.parametrize(
    ("fields", "unit", "message"),
    [
        ({"by": "model", "fleet": 4}, "m", "--by model does not support --fleet 4: use --by auto or hgs or"),
        ({"by": "model", "longest_route": "45km"}, "m", "--by model does not support --longest-route 45 km"),
        ({"by": "model", "shift": 9.0}, "s", "--by model does not support --shift 9 s: use --by auto or hgs"),
        (
            {"shift": 9.0, "longest_route": "8s"},
            "s",
            "--shift 9 s and --longest-route 8 s both limit the length",
        ),
        ({"shift": 9.0, "longest_route": "45km"}, "m", "--shift 9 s and --longest-route 45 km both limit"),
        ({"service": 300.0}, "s", "--service 5 min counts with --shift and --start-time only: give one"),
        ({"start_time": "08:00"}, "m", "--start-time count .* in m: import it with --by time "),
        ({"shift": 28800.0}, "m", "costs of city 'lyon' are in m: import "),
        ({"longest_route": "45km"}, "s", "costs of the city are in s: give a limit such as 30min"),
        (
            {"longest_route": 45.0},
            "seconds",
            "--longest-route 45, but costs of the city are in s: give 45min",
        ),
        ({"longest_route": 45.0}, "km", "--longest-route 45, but costs of the city are in km: give 45km"),
        ({"longest_route": "45km"}, "unit", "in sides of the city's square: give a number"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(fields: dict[str, Any], unit: str, message: str) -> None:
    """One limit of the length, service only where times count, in the city's unit, and supported."""
    city = City(OPPOSITE.xy, origin=(-10, -10), scale=20.0, unit=unit)
    with pytest.raises(McvrpError, match=message):
        require_supported(SolveSpec.model_validate(fields).in_unit(unit), city, "lyon")
    require_supported(SolveSpec(), city, "lyon")
    require_supported(SolveSpec(shift=9.0, service=0.0), replace(city, unit="sec"), "lyon")


def test_durations_and_lengths_have_units_or_none() -> None:
    """In presets, forms and Python as on the command line."""
    for fields in ({"shift": "7h 30min", "service": "3min"}, {"shift": 27000, "service": 180}):
        spec = SolveSpec.model_validate(fields)
        assert (spec.shift, spec.service) == (27_000.0, 180.0)
    lengths = ({"longest_route": wrong} for wrong in ("45 kms", "-4km", "km", ""))
    for wrong in (
        *({"shift": wrong} for wrong in ("8x", "0h", "200h", "1_0", "nan")),
        {"service": "3"},
        *lengths,
    ):
        with pytest.raises(ValidationError):
            SolveSpec.model_validate(wrong)
