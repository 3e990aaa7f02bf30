"""Decided routes stay to the stop, whatever is planned around them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.city import MOST_COST
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.kept import Begun, Kept, Rest, read_kept, rest_of
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.unserved import fewest_unserved, most_served, require_possible
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.searches import scaled_costs
from mcvrp.tasks.solvers.solver import Limits, SolverFailed, route_lengths
from tests.support.optimum import best_cost
from tests.support.solving import CITY, day_plan, one_way_city, put_day, solved_day

CITIES = (CITY, one_way_city())
NAMES = Addresses.numbered(CITY.customers)
HEADER = "route,stop,customer,kept\n"


def closed_city(node: int) -> City:
    """Return a city in which no road leads to ``node``."""
    city = one_way_city()
    assert city.matrix is not None
    matrix = city.matrix.copy()
    matrix[node, :] = matrix[:, node] = MOST_COST
    return replace(city, matrix=matrix)


def random_day(seed: int) -> tuple[City, Instance, Kept, Limits]:
    """Return a day of up to 14 customers, some of whose random routes are kept whole or have begun."""
    rng = np.random.default_rng(seed)
    city, n = CITIES[seed % 2], int(rng.integers(2, 15))
    ids = np.sort(rng.choice(np.arange(1, 41), n, replace=False)).astype(np.uint32)
    instance = Instance(city.city_id, ids, rng.integers(1, 7, n).astype(np.uint16), 18)
    whole, begun, free, left = list[tuple[int, ...]](), list[Begun](), [], rng.permutation(ids).tolist()
    while left:
        route = tuple(left[: rng.integers(1, 4)])  # three demands of at most 6
        left, count = left[len(route) :], int(rng.integers(0, len(route) + 1))
        if count == len(route):
            whole.append(route)
        elif count:
            begun.append(Begun(route[:count], route[count:]))
        else:
            free.append(route)
    routes = Solution((*whole, *(begin.stops + begin.others for begin in begun), *free))
    longest, fleet = float(route_lengths(city, routes).max()), len(routes.routes)
    limits = (Limits(), Limits(fleet), Limits(None, longest), Limits(fleet, longest))[int(rng.integers(4))]
    if limits.longest_route and rng.random() < 0.5:
        service = {int(node): float(rng.random()) * longest / 9 for node in ids}
        limits = Limits(limits.fleet, 1.4 * longest, service)
    return city, instance, Kept("routes.csv", tuple(whole), tuple(begun), tuple(free)), limits


def planned(rest: Rest, iterations: int = 20) -> Solution:
    """Return the routes of a search: from the earlier routes."""
    if rest.instance is None:
        return rest.day(Solution(()))
    search = PyVRP(iterations=iterations, **rest.limits.given)
    return rest.day(search.search(rest.city, rest.instance, 1, [rest.start] if rest.start else []))


def obeyed(city: City, instance: Instance, kept: Kept, limits: Limits, solution: Solution) -> None:
    assert infeasibility(instance, solution) is None
    assert set(kept.whole) <= set(solution.routes)
    for begin in kept.begun:
        assert any(route[: len(begin.stops)] == begin.stops for route in solution.routes)
    assert limits.fleet is None or len(solution.routes) <= limits.fleet
    free = [route for route in solution.routes if route not in kept.whole]
    if limits.longest_route is not None and free:
        late = [begin.stops for begin in kept.begun if begin.stops in free]  # goes home at once
        assert all(
            length <= limits.longest_route * (1 + 2e-9) or route in late
            for route, length in zip(
                free, route_lengths(city, Solution(tuple(free)), limits.service), strict=True
            )
        )


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 1000), marks=pytest.mark.slow)], ids=["some", "1000"]
)
def test_kept_stops_stay(seeds: range) -> None:
    """Whole routes as they are, then first stops with nothing before them, both in the file's order."""
    planned_days = 0
    for seed in seeds:
        city, instance, kept, limits = random_day(seed)
        try:
            rest = rest_of(kept, city, NAMES, instance, limits)
            solution = planned(rest)
        except SolverFailed:  # a hard day for 20 iterations
            continue
        obeyed(city, instance, kept, limits, solution)
        begun = [begin.stops for begin in kept.begun if begin.stops not in rest.whole]
        others = solution.routes[len(rest.whole) :]
        assert [route[: len(stops)] for route, stops in zip(others, begun, strict=False)] == begun
        planned_days += 1
    assert planned_days > 0.9 * len(seeds)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_planned_around_them_is_the_best(seed: int) -> None:
    """Trying all routes of the rest finds none that cost less."""
    city, instance, kept, limits = random_day(40 + seed)
    rest = rest_of(kept, city, NAMES, instance, limits)
    if rest.instance is None or rest.instance.n > 7:
        return
    best = best_cost(rest.city, rest.instance, rest.limits)
    found = planned(rest, iterations=300)
    assert cost(city, found) == pytest.approx(best + cost(city, Solution(rest.whole)), rel=1e-6)


@pytest.mark.parametrize("begun", [1, 10])
@pytest.mark.parametrize("closed", [False, True])
def test_the_dearest_leg_defines_the_scale(begun: int, closed: bool) -> None:
    """A leg that no vehicle may take does not make the others round to nothing, however many have left."""
    city = one_way_city()
    assert city.matrix is not None
    matrix = city.matrix.copy()
    if closed:
        matrix[15, 16] = 1e9
    city = replace(city, matrix=matrix)
    instance = Instance(city.city_id, np.arange(1, 17), np.ones(16), 18)  # type: ignore[arg-type]
    kept = Kept("", (), tuple(Begun((node,), ()) for node in range(1, begun + 1)), ())
    rest = rest_of(kept, city, NAMES, instance, Limits())
    assert rest.instance is not None
    costs, _ = scaled_costs(rest.city, rest.instance)
    allowed = rest.city.costs(rest.instance.nodes) < 1e9
    assert costs[allowed].max() == pytest.approx(1e4)
    assert costs.max() == costs[~allowed].min() == pytest.approx(1e6)


@pytest.mark.parametrize("stops", [(5,), (2, 5), (5, 2)])
def test_a_vehicle_that_has_driven_without_a_road_returns(stops: tuple[int, ...]) -> None:
    """Its stops stay as they are, and the others are planned as if it were not there."""
    city = closed_city(5)
    instance = Instance(city.city_id, np.arange(1, 9), np.full(8, 3), 18)  # type: ignore[arg-type]
    kept = Kept("k.csv", (), (Begun(stops, (8,)), Begun((3,), ())), ())
    rest = rest_of(kept, city, NAMES, instance, Limits())
    require_possible(rest, "")
    assert rest.whole == (stops,)
    obeyed(city, instance, kept, Limits(), planned(rest))


def test_an_address_without_a_road_is_refused_beside_begun_routes() -> None:
    city = closed_city(5)
    instance = Instance(city.city_id, np.arange(1, 9), np.full(8, 3), 18)  # type: ignore[arg-type]
    kept = Kept("k.csv", (), (Begun((2,), ()),), ())
    with pytest.raises(McvrpError, match=r"^'5' has no road from or to the depot \(costs of 1e\+12\), so "):
        rest_of(kept, city, NAMES, instance, Limits())


def read(folder: Path, text: str, *, capacity: int = 18, **columns: str) -> Kept:
    (folder / "keep.csv").write_text(text)
    instance = Instance(CITY.city_id, np.arange(1, 7), np.full(6, 3), capacity)  # type: ignore[arg-type]
    names = replace(NAMES, columns=columns)
    return read_kept(Store.open(folder), str(folder / "keep.csv"), names, instance)


def test_a_file_marks_what_is_kept(tmp_path: Path) -> None:
    """All stops of a route, its first ones, or none; all routes without the column."""
    rows = "a,0,0,yes\na,1,1,yes\na,2,2,x\na,3,0,\nb,2,4,no\nb,1,3,1\nc,1,5,\n"
    assert read(tmp_path, HEADER + rows) == Kept("keep.csv", ((1, 2),), (Begun((3,), (4,)),), ((5,),))
    own = "Tour,stop,Code,fest,kept\na,1,1,x,?\na,2,2,,\n"
    marked = read(tmp_path, own, id="Code", route="Tour", kept="Fest")
    assert marked == Kept("keep.csv", (), (Begun((1,), (2,)),), ())
    plain = "route,stop,customer\na,1,1\nb,1,2\nb,2,3\n"
    assert read(tmp_path, plain) == Kept("keep.csv", ((1,), (2, 3)), (), ())


def test_routes_that_are_kept_are_of_the_day(tmp_path: Path) -> None:
    """Those of its date; other days are refused."""
    file = tmp_path / "keep.csv"
    file.write_text("date,route,stop,customer\n2026-11-30,a,1,1\n2026-12-01,a,1,2\n")
    instance = Instance(CITY.city_id, np.arange(1, 7), np.full(6, 3), 18)  # type: ignore[arg-type]

    def kept(date: str | None) -> Kept:
        day = None if date is None else datetime.date.fromisoformat(date)
        return read_kept(Store.open(tmp_path), str(file), NAMES, instance, date=day)

    assert kept("2026-12-01").whole == ((2,),)
    with pytest.raises(McvrpError, match=r"rows of 2 days, .*: choose one with --date"):
        kept(None)
    with pytest.raises(McvrpError, match="no row of 2026-12-02, but of"):
        kept("2026-12-02")
    file.write_text("date,route,stop,customer\n02/11/2026,a,1,1\n03/11/2026,a,1,2\n")  # in the city's order
    names, day = replace(NAMES, dates="day-first"), datetime.date(2026, 11, 3)
    assert read_kept(Store.open(tmp_path), str(file), names, instance, date=day).whole == ((2,),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("route,stop,customer\na,1,9\n", "row 2: the kept stop at '9' has no order: add it"),
        (HEADER + "a,1,1,perhaps\n", "row 2: kept is 'perhaps', not yes or no"),
        (HEADER + "a,1,1,no\na,2,2,yes\n", "row 3: stop 2 of route 'a' is kept, and not all before it"),
        (HEADER + "a,1,1,no\nb,1,2,\n", "keep.csv keeps no stop: mark stops in its column kept"),
        (HEADER + "a,1,1,yes\na,2,1,yes\n", "row 3: customer '1' is already on a route, in row 2"),
        (HEADER + "".join(f"a,{k},{k},1\n" for k in range(1, 7)), "demand of 18, more than 17"),
        ("route,customer,kept\na,1,1\n", "has no column stop"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(McvrpError, match=message):
        read(tmp_path, text, capacity=17)


def test_more_kept_routes_than_vehicles_are_refused() -> None:
    instance = Instance(CITY.city_id, np.arange(1, 5), np.full(4, 3), 18)  # type: ignore[arg-type]
    kept: dict[str, Any] = {"begun": (), "free": ()}
    with pytest.raises(McvrpError, match="keeps 2 routes of 1 vehicles, and 2 customers remain: increase"):
        rest_of(Kept("k.csv", ((1,), (2,)), **kept), CITY, NAMES, instance, Limits(fleet=1))
    with pytest.raises(McvrpError, match="keeps 2 routes of 2 vehicles, and 2 customers remain: increase"):
        rest_of(Kept("k.csv", ((1,), (2,)), **kept), CITY, NAMES, instance, Limits(fleet=2))
    assert (
        rest_of(Kept("k.csv", ((1, 3), (4, 2)), **kept), CITY, NAMES, instance, Limits(fleet=2)).instance
        is None
    )
    instance = Instance(CITY.city_id, np.arange(1, 9), np.full(8, 9), 18)  # type: ignore[arg-type]
    rest = rest_of(Kept("k.csv", ((1,), (2,)), **kept), CITY, NAMES, instance, Limits(fleet=4))
    message = (
        "--fleet 4: a total demand of 54 at a capacity of 18 needs at least 3 vehicles besides the 2 kept:"
    )
    with pytest.raises(McvrpError, match=message):
        require_possible(rest, "--fleet 4")


def test_the_first_stops_are_served_before_others() -> None:
    """A fleet without room leaves out customers who are free, never those at whom a vehicle has been."""
    instance = Instance(CITY.city_id, np.arange(1, 9), np.full(8, 6), 18)  # type: ignore[arg-type]
    kept = Kept("k.csv", (), (Begun((2, 1), ()), Begun((3,), (4,))), ())
    rest = rest_of(kept, CITY, NAMES, instance, Limits(fleet=2))
    served = most_served(rest, "--fleet 2", {1: -5.0, 8: 2.0})
    routes = rest.day(served.solution).routes
    assert len(served.left_out) == fewest_unserved(rest) == 2
    assert not {1, 2, 3, 8} & served.left_out.keys()
    assert sorted(route[: 2 - (3 in route)] for route in routes) == [(2, 1), (3,)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    return store


@pytest.mark.parametrize("marked", [True, False])
def test_a_day_is_planned_around_yesterdays_routes(store: Store, tmp_path: Path, marked: bool) -> None:
    """From routes.csv: first stops and whole routes stay; the model is not asked about begun ones."""
    spec: dict[str, Any] = {"time_limit": 2.0, "samples": 4}
    earlier = solved_day(store, dict.fromkeys(range(1, 16), 3), 18, **spec)
    write_day(Place(Store.open(tmp_path)), earlier)
    routes, begun = earlier.solution.routes, earlier.solution.routes[1][:2]
    frame = pd.read_csv(tmp_path / "routes.csv").query("route < 3")
    if marked:
        stays = (frame["route"] == 1) | (frame["stop"] < 3)
        frame["kept"] = stays.map({True: "yes", False: ""})
    frame.to_csv(tmp_path / "keep.csv", index=False)
    more = dict.fromkeys(range(1, 21), 3)
    limits: dict[str, Any] = {"fleet": 4, "longest_route": 99.0}
    result = solved_day(store, more, 18, keep=str(tmp_path / "keep.csv"), **spec, **limits)
    assert infeasibility(result.planned.day.instance, result.solution) is None
    assert result.solution.routes[0] == routes[0]
    if marked:
        assert any(route[:2] == begun for route in result.solution.routes)
    else:
        assert result.solution.routes[1] == routes[1]
    assert len(result.solution.routes) <= 4
    findings, whole = result.search.findings, Solution(routes[: 1 if marked else 2])
    assert result.cost == pytest.approx(findings[0].cost) == cost(CITY, result.solution)
    assert (
        f"keep.csv keeps {len(whole.routes)} whole routes and the first stops of {marked:d} more"
        in result.notes
    )
    assert ("the model was not used: it does not continue routes that have begun" in result.notes) == marked
    assert (findings[0].routes, result.unserved) == (len(result.solution.routes), ())


def test_a_day_that_is_decided_needs_no_search(store: Store, tmp_path: Path) -> None:
    (tmp_path / "keep.csv").write_text(HEADER + "a,1,5,1\na,2,4,1\nb,1,6,1\n")
    result = solved_day(store, {4: 3, 5: 3, 6: 3}, 18, keep=str(tmp_path / "keep.csv"))
    assert result.solution.routes == ((5, 4), (6,))
    assert result.found_by == "the kept routes"


@pytest.mark.parametrize("limits", [{"fleet": 1}, {"longest_route": 0.01}], ids=["fleet", "longest route"])
def test_kept_routes_are_an_answer_if_nobody_else_has_room(
    store: Store, tmp_path: Path, limits: dict[str, Any]
) -> None:
    """With --drop; of any priority, and without the rest of the demand in the figures."""
    (tmp_path / "day.csv").write_text("customer,demand,priority\n4,3,\n5,3,\n6,3,2\n7,3,1\n")
    (tmp_path / "keep.csv").write_text(HEADER + "a,1,5,1\na,2,4,1\n")
    given: dict[str, Any] = {"keep": str(tmp_path / "keep.csv"), "time_limit": 1.0, "samples": 0, **limits}
    result = solved_day(store, str(tmp_path / "day.csv"), 18, drop=True, **given)
    assert result.solution.routes == ((5, 4),)
    assert [each.customer for each in result.unserved] == ["6", "7"]
    assert (result.found_by, int(result.instance.demands.sum())) == ("the kept routes", 6)
    assert result.cost == pytest.approx(cost(CITY, result.solution))
    message = r"2 customers remain: increase --fleet|no routes satisfy --longest-route"
    with pytest.raises(McvrpError, match=message):
        solved_day(store, str(tmp_path / "day.csv"), 18, **given)


@pytest.mark.parametrize("by", ["hgs", "model"])
def test_who_cannot_continue_begun_routes_is_refused(store: Store, tmp_path: Path, by: str) -> None:
    (tmp_path / "keep.csv").write_text(HEADER + "a,1,5,1\na,2,4,\n")
    with pytest.raises(
        McvrpError, match=f"--by {by} does not continue routes that have begun: use --by auto"
    ):
        day_plan(store, {4: 3, 5: 3, 6: 3}, 18, keep=str(tmp_path / "keep.csv"), by=by)
