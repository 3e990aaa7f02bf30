"""Customers without room: as few as possible, shown by trying all, and never one of a higher priority."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from python_calamine import CalamineWorkbook

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.model.problem import City, Instance, infeasibility
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.day import solve_day
from mcvrp.tasks.solve.kept import Rest
from mcvrp.tasks.solve.limits import limits_text
from mcvrp.tasks.solve.map import map_page
from mcvrp.tasks.solve.outputs import Place, route_table, solve_figures, stop_table, write_day
from mcvrp.tasks.solve.unserved import Served, fewest_unserved, most_served, require_possible
from mcvrp.tasks.solvers.pyvrp import only
from mcvrp.tasks.solvers.searches import fewest_vehicles
from mcvrp.tasks.solvers.solver import Limits, SolverFailed
from mcvrp.tasks.support.text import time_text
from tests.support.optimum import best_cost
from tests.support.solving import CITY, day_plan, one_way_city, solved_day

pytestmark = pytest.mark.usefixtures("impatient")
NAMES = Addresses.numbered(CITY.customers)
LIMITS = "--fleet 1"  # in words, for reasons


def random_rest(seed: int, n: int, city: City = CITY) -> Rest:
    """Return a day with a fleet that is one vehicle short, a longest route, or both with service."""
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(np.arange(1, city.customers + 1), n, replace=False)).astype(np.uint32)
    instance = Instance(city.city_id, ids, rng.integers(1, 10, n).astype(np.uint16), 18)
    trips = city.costs(instance.nodes)[0, 1:] + city.costs(instance.nodes)[1:, 0]
    longest = float(np.quantile(trips, rng.uniform(0.5, 1))) * float(rng.uniform(1, 1.5))
    fleet = max(1, fewest_vehicles(instance) - int(rng.integers(0, 2)))
    service = {int(node): float(rng.random()) * longest / 5 for node in ids}
    limits = (Limits(fleet), Limits(None, longest), Limits(fleet, longest), Limits(fleet, longest, service))
    return Rest(city, instance, limits[seed % 4])


def within(rest: Rest, served: Served) -> None:
    """Check that the routes serve everyone else, within the limits."""
    others = only(rest.instance, set(rest.instance.ids.tolist()) - served.left_out.keys())
    assert others is None or infeasibility(others, served.solution) is None
    assert rest.limits.broken(rest.city, served.solution) is None if others else not served.solution.routes


def fewest(rest: Rest) -> tuple[int, float]:
    """Return the smallest number of customers to leave out, and the cost of the others, by trying all."""
    nodes = rest.instance.ids.tolist()
    for count in range(len(nodes)):
        without = (set(nodes) - set(out) for out in itertools.combinations(nodes, count))
        costs = [
            best_cost(rest.city, others, rest.limits)
            for each in without
            if (others := only(rest.instance, each))
        ]
        if math.isfinite(least := min(costs)):
            return count, least
    return len(nodes), 0.0


@pytest.mark.parametrize("city", [CITY, one_way_city()], ids=["both ways", "one way"])
@pytest.mark.parametrize("seed", range(24))
def test_no_fewer_can_be_left_out(city: City, seed: int) -> None:
    """The smallest set of six customers, the cheapest of these; the bound that proves it is never above."""
    rest = random_rest(seed, 6, city)
    served = most_served(rest, LIMITS)
    within(rest, served)
    count, least = fewest(rest)
    assert fewest_unserved(rest) <= len(served.left_out) == count
    if others := only(rest.instance, set(rest.instance.ids.tolist()) - served.left_out.keys()):
        assert best_cost(city, others, rest.limits) == pytest.approx(least, rel=1e-3)


def test_a_fleet_that_is_too_small_is_proved_so() -> None:
    """At 100 customers, too: the sum of the demands says how many have no room, and as few are left out."""
    city = City.uniform(300, seed=2)
    for seed in (0, 4, 8):
        instance = random_rest(seed, 100, city).instance
        rest = Rest(city, instance, Limits(fewest_vehicles(instance) - 1))
        served = most_served(rest, LIMITS)
        within(rest, served)
        assert len(served.left_out) == fewest_unserved(rest) >= 1


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 6, 7])
def test_nobody_displaces_a_higher_priority(seed: int) -> None:
    """Those of the highest priority are served as if they were alone, then those of the next."""
    rest = random_rest(seed, 9)
    nodes = rest.instance.ids.tolist()
    priority = {node: float(k % 3) for k, node in enumerate(nodes)}
    served = most_served(rest, LIMITS, priority)
    within(rest, served)
    high = [node for node in nodes if priority[node] == 2]
    urgent = only(rest.instance, high)
    assert urgent is not None
    alone = Rest(rest.city, urgent, rest.limits)
    assert sum(priority[node] == 2 for node in served.left_out) == fewest(alone)[0]


def test_the_lowest_priority_is_left_out() -> None:
    """One vehicle holds three of four orders of the same size, whichever customers they are of."""
    instance = Instance(CITY.city_id, np.arange(1, 5), np.full(4, 6), 18)  # type: ignore[arg-type]
    rest = Rest(CITY, instance, Limits(1))
    for lowest in range(1, 5):
        served = most_served(rest, LIMITS, {node: 1.5 + (node != lowest) for node in range(1, 5)})
        assert served.left_out == {lowest: "no room within --fleet 1"}
    assert set(most_served(replace(rest, limits=Limits(0)), LIMITS).left_out) == {1, 2, 3, 4}
    assert most_served(rest, LIMITS, {3: -1.0}).left_out.keys() == {3}  # others have none, which is 0


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        (Limits(1), "--fleet 1: a total demand of 24 at a capacity of 18 needs at least 2 vehicles"),
        (Limits(2, 0.8), "--longest-route 0.800: the round trip to '1' is 1.1"),
        (Limits(1, 1e9, dict.fromkeys(range(1, 5), 4e8)), "--shift 1000000000.000: a total demand"),
        (Limits(2, 1e9, dict.fromkeys(range(1, 5), 6e8)), "even the shortest legs and stops take longer"),
    ],
)
def test_a_limit_that_cannot_be_satisfied_is_one_sentence(limits: Limits, cause: str) -> None:
    """With the limits and the cause."""
    instance = Instance(CITY.city_id, np.arange(1, 5), np.full(4, 6), 18)  # type: ignore[arg-type]
    with pytest.raises(McvrpError) as error:
        require_possible(Rest(CITY, instance, limits), limits_text(limits, CITY.unit), NAMES)
    assert cause in str(error.value)
    assert len(str(error.value)) <= LONGEST


def monday(folder: Path, rows: str) -> str:
    (folder / "monday.csv").write_text(f"customer,demand,priority\n{rows}")
    return str(folder / "monday.csv")


def test_a_day_leaves_out_the_lowest_priority(store: Store, tmp_path: Path) -> None:
    """Routes of the others; the file of those left out is replaced, and removed without the option."""
    rows = "".join(f"{k},6,{k % 4}\n" for k in range(1, 8)) + "1,1,7\n"
    orders, place = monday(tmp_path, rows), Place(Store.open(tmp_path / "out"))
    result = solved_day(store, orders, 18, drop=True, fleet=2, time_limit=1.0, samples=0)
    served = {node for route in result.solution.routes for node in route}
    assert served == {1, 2, 3, 6, 7}  # customer 1 has an order of 7
    assert infeasibility(result.instance, result.solution) is None
    assert [each.customer for each in result.unserved] == ["4", "5"]
    assert (result.instance.n, int(result.instance.demands.sum())) == (5, 31)
    write_day(place, result)
    lines = (tmp_path / "out" / "unserved.csv").read_text().splitlines()[1:]
    reason, book = "no room within --fleet 2", tmp_path / "out" / "routes.xlsx"
    rows_left_out = CalamineWorkbook.from_path(book).get_sheet_by_name("Left out").to_python()
    assert rows_left_out[1:] == [["5", 6, reason, 1], ["4", 6, reason, 0]]
    assert lines == [f"5,6,{reason},1", f"4,6,{reason},0"]
    routes = pd.read_csv(tmp_path / "out" / "routes.csv").dropna().set_index("customer")
    assert routes["priority"].astype(str).to_dict() == {1: "1; 7", 2: "2", 3: "3", 6: "2", 7: "3"}
    assert (
        "| left out | 2 of these customers, total demand 12 |" in (tmp_path / "out" / "README.md").read_text()
    )
    left_out = "2 customers left out (unserved.csv has the reasons): '4' and '5'"
    assert any(note.startswith(left_out) for note in result.notes)
    write_day(place, solved_day(store, {1: 3}, 18, time_limit=1.0, samples=0))
    assert not (tmp_path / "out" / "unserved.csv").exists()


def test_those_left_out_can_be_called(store: Store, tmp_path: Path) -> None:
    """Their file has the columns of addresses and orders, as the routes have, and the reason in words."""
    further = {"Name": tuple(f"Shop {k}" for k in range(41)), "Reason": tuple(f"r{k}" for k in range(41))}
    save_city(store, "phones", CITY, replace(NAMES, further=further))
    (tmp_path / "day.csv").write_text("customer,demand,note\n1,6,bell\n2,6,\n3,6,dog\n4,6,ring\n")
    options: dict[str, Any] = {"city": "phones", "model": None, "drop": True, "time_limit": 1.0}
    result = solved_day(store, str(tmp_path / "day.csv"), 18, fleet=1, longest_route=9.0, **options)
    write_day(Place(Store.open(tmp_path / "out")), result)
    (row,) = pd.read_csv(tmp_path / "out" / "unserved.csv", keep_default_na=False).to_dict("records")
    k, note = row["customer"], {1: "bell", 2: "", 3: "dog", 4: "ring"}
    assert (row["Name"], row["address_Reason"], row["note"]) == (f"Shop {k}", f"r{k}", note[k])
    assert row["reason"] == "no room within --fleet 1 and --longest-route 9.000"
    page, name = (tmp_path / "out" / "map.html").read_text(), "customer who is left out"
    assert page.count(f"<title>{k}: demand 6, left out: {row['reason']}</title>") == page.count(name) == 1
    assert name not in map_page(solved_day(store, {1: 3}, 18, time_limit=1.0, samples=0))
    (tmp_path / "day.csv").write_text("customer,demand,note,Prio\n1,30,,\n2,6,bell,1\n")
    options |= {"columns": {"priority": "Prio"}}
    write_day(
        Place(Store.open(tmp_path / "out")), solved_day(store, str(tmp_path / "day.csv"), 18, **options)
    )
    unserved, routes = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("unserved", "routes"))
    assert {"note", "Prio"} <= {*unserved} & {*routes}, "even if empty in one of them"


def test_an_order_larger_than_a_vehicle_is_left_out(store: Store, tmp_path: Path) -> None:
    """With its reason and priority, with other limits or none; without --drop its row is refused."""
    orders, large = monday(tmp_path, "1,6,\n2,15,9\n2,12,\n3,4,\n"), "27 is more than a vehicle holds (20): "
    with pytest.raises(McvrpError, match=r"row 3: .* demand of 27 .*: split .*\(--drop\)"):
        day_plan(store, orders, 20, samples=0)
    for limits in ({}, {"fleet": 2}):
        result = solved_day(store, orders, 20, drop=True, time_limit=1.0, samples=0, **limits)
        assert {node for route in result.solution.routes for node in route} == {1, 3}
        assert "total demand 37" in solve_figures(result)["orders"]
        write_day(Place(Store.open(tmp_path / "out")), result)
        (row,) = pd.read_csv(tmp_path / "out" / "unserved.csv").to_dict("records")
        assert (row["customer"], row["demand"]) == (2, 27)
        assert row["reason"].startswith(large)
        assert f"left out: {large}" in map_page(result)
    without = day_plan(store, {1: 6, 3: 4}, 20, drop=True)
    assert without.digest != day_plan(store, orders, 20, drop=True).digest
    with pytest.raises(McvrpError, match="more than the capacity of a vehicle, 3"):
        day_plan(store, orders, 3, drop=True)


def test_nobody_is_left_out_without_need(store: Store) -> None:
    result = solved_day(store, {1: 3, 2: 3}, 18, drop=True, fleet=2, time_limit=1.0, samples=0)
    assert result.unserved == ()
    free = solved_day(store, {1: 3, 2: 3}, 18, time_limit=1.0, samples=0)
    assert free.solution == result.solution
    with pytest.raises(
        McvrpError, match=r"within --longest-route 0\.001 were found, not even for one customer"
    ):
        solved_day(store, {1: 3, 2: 3}, 18, drop=True, longest_route=1e-3, time_limit=1.0)


@pytest.mark.parametrize("by", ["auto", "hgs"])
def test_a_search_without_routes_ends_in_time(store: Store, by: str) -> None:
    """The round trips to the two farthest customers fit, those of all customers in two routes do not."""
    trips = 2 * CITY.costs(np.arange(9))[0, 1:]
    limits: dict[str, Any] = {"fleet": 2, "longest_route": float(trips.max()), "by": by, "samples": 0}
    orders = dict.fromkeys(range(1, 9), 1)
    day = day_plan(store, orders, 18, time_limit=1.0, **limits)
    with pytest.raises(SolverFailed, match=r"no routes within --fleet 2 and .* \(--drop\)$"):
        solve_day(store, day, time.monotonic())
    served = solved_day(store, orders, 18, drop=True, time_limit=1.0, **limits)
    assert served.unserved
    assert day.rest is not None
    assert day.rest.limits.broken(CITY, served.solution) is None


def test_a_shift_counts_the_stops_of_a_day(tmp_path: Path) -> None:
    """Both orders of a customer, by the column or else the option; in any portfolio."""
    store, ids = Store.open(tmp_path), Addresses(("Depot", "West", "East"))
    city = City(np.array([[0.0, 0], [-600, 0], [600, 0]]), origin=(-600, -600), scale=1200.0, unit="s")
    save_city(store, "two", city, ids)
    (tmp_path / "day.csv").write_text("customer,demand,service\nWest,1,100\nEast,1,\nEast,1,40\n")

    for shift, count, longest in ((2600.0, 1, "43 min 20 s"), (2599.0, 2, "21 min 40 s")):
        spec: dict[str, Any] = {"shift": shift, "service": 60, "time_limit": 30.0}
        result = solved_day(store, str(tmp_path / "day.csv"), 9, city="two", model=None, **spec)
        assert len(result.solution.routes) == count
        assert (
            f"the routes satisfy --shift {time_text(shift)}; the longest is {longest} with its stops"
            in result.notes
        )
        assert not any("--start-time only" in note for note in result.notes)
        assert solve_figures(result)["service time"] == "40 s to 1 min 40 s per order"
        table = stop_table(result)
        assert dict(zip(table["customer"], table["service_seconds"], strict=True)) == {
            "Depot": "",
            "West": "100",
            "East": "100",
        }
        assert longest in route_table(result)
    (tmp_path / "keep.csv").write_text("route,stop,customer\nW,1,West\nE,1,East\n")
    for shift, named in ((1300.0, False), (1299.0, True)):  # 1,200 s of driving
        spec = {"shift": shift, "service": 60, "keep": str(tmp_path / "keep.csv")}
        result = solved_day(store, str(tmp_path / "day.csv"), 9, city="two", model=None, **spec)
        assert (f"kept routes longer than --shift {time_text(shift)}: W and E" in result.notes) is named
    free = solved_day(store, str(tmp_path / "day.csv"), 9, city="two", model=None, time_limit=30.0)
    assert any(
        note.endswith("the routes: service; service counts with --shift and --start-time only")
        for note in free.notes
    )
    assert "service time" not in solve_figures(free)
    with pytest.raises(
        McvrpError, match="no routes satisfy --shift 20 min 50 s: the round trip to 'West' is 21 min 40 s"
    ):
        solved_day(store, str(tmp_path / "day.csv"), 9, city="two", model=None, shift=1250.0)
