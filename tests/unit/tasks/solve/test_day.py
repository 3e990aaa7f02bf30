"""Routing of a day: feasible, the cheapest of all that were found, invalid input refused."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance, cost, infeasibility
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.models.models import chosen_model
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import read_vrp
from mcvrp.tasks.solve.day import solve_day
from mcvrp.tasks.solve.member import ModelMember, SearchMember
from mcvrp.tasks.solve.members import members_of
from mcvrp.tasks.solve.outputs import summary
from mcvrp.tasks.solve.parts import PartsMember
from mcvrp.tasks.solve.plan import Request, plan_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import SolverFailed
from tests.support.solving import CITY, day_plan, one_way_city, put_day, put_model, solved_day

pytestmark = pytest.mark.usefixtures("impatient")
VRP = Path(__file__).parents[3] / "support" / "data" / "E-n22-k4.vrp"


def instance(n: int, city: City = CITY, capacity: int = 20) -> Instance:
    rng = np.random.default_rng(n)
    ids = np.sort(rng.choice(np.arange(1, city.customers + 1), n, replace=False))
    return Instance(city.city_id, ids, rng.integers(1, 10, n), capacity)  # type: ignore[arg-type]


def demands(day: Instance) -> dict[int, int]:
    return dict(zip(day.ids.tolist(), day.demands.tolist(), strict=True))


@pytest.mark.parametrize("by", ["auto", "model", "hgs", "pyvrp"])
@pytest.mark.parametrize("n", [1, 2, 25])
def test_routes_serve_everybody(store: Store, n: int, by: str) -> None:
    """Each member is heard; the routes that are written cost least of all that were found."""
    day = instance(n)
    solved = solved_day(store, demands(day), by=by, samples=8, time_limit=120.0)
    findings = solved.search.findings
    assert infeasibility(day, solved.solution) is None
    assert solved.cost == cost(CITY, solved.solution) == min(each.cost for each in findings)
    assert (solved.found_by, solved.failures) == (findings[0].by, ())
    labels = {each.by for each in findings}
    alone = {"model": "model small version 1", "hgs": "HGS", "pyvrp": "PyVRP"}
    if n == 1:
        assert labels == {"a quick first plan"}
    elif by == "auto":
        assert {"HGS", "a quick first plan", "model small version 1"} <= labels
    else:
        assert labels == {alone[by]}


@pytest.mark.parametrize("damage", ["cut", "removed", "flipped"])
def test_damaged_weights_are_reported_beside_the_routes_of_the_search(tmp_path: Path, damage: str) -> None:
    """With the file and the command that removes it; alone, the model is refused."""
    own = Store.open(tmp_path / "the store")
    put_day(own)
    file = tmp_path / "the store/models/small/0001/model.safetensors"
    data = file.read_bytes()
    changed = {"cut": data[:-100], "flipped": data[:-1] + bytes([data[-1] ^ 1])}.get(damage)
    file.unlink()
    if changed:
        file.write_bytes(changed)
    day = instance(25)
    solved = solved_day(own, demands(day), samples=2, time_limit=120.0)
    assert infeasibility(day, solved.solution) is None
    assert solved.found_by == "HGS"
    (failure,) = solved.failures
    assert failure.startswith("model small version 1: ")
    assert str(file) in failure
    assert failure.endswith(f"run rm -r '{file.parent}' and mcvrp train, which publishes it again")
    assert failure in solved.notes
    assert not any("the model was trained" in note for note in solved.notes)  # it was not used
    with pytest.raises(SolverFailed, match=r"run rm -r .* and mcvrp train"):
        solved_day(own, demands(day), by="model")


def test_a_day_from_orders_to_figures(store: Store) -> None:
    orders = [Order(customer=str(k), demand=3) for k in (3, 8, 3, 20)]
    planned = plan_day(store, Request(orders, "small", "small", 10), SolveSpec(samples=4))
    solved = solve_day(store, planned, time.monotonic())
    figures = summary(solved)
    assert [figures[name] for name in ("lines", "customers", "demand", "capacity")] == [4, 3, 12, 10]
    assert figures["utilisation"] == pytest.approx(12 / (len(solved.solution.routes) * 10))
    assert any("orders of the same customer merged: 2 of '3' into one of 6" in note for note in solved.notes)
    assert any("trained on 20 to 24 customers and this day has 3" in note for note in solved.notes)


def test_a_day_without_a_model(store: Store) -> None:
    """No name, no samples, or a solver alone; the search by a model requires one."""
    orders = dict.fromkeys((3, 8, 20, 21), 3)
    for options in ({"model": None}, {"model": "absent", "samples": 0}, {"model": "absent", "by": "pyvrp"}):
        solved = solved_day(store, orders, 10, **{"time_limit": 1.0} | options)
        assert infeasibility(solved.planned.day.instance, solved.solution) is None
        assert solved.planned.card is None
    with pytest.raises(McvrpError, match="by model needs a model"):
        solved_day(store, orders, 10, model=None, by="model")


def test_a_model_decodes_an_instance_of_cvrplib(tmp_path: Path) -> None:
    """If the instance is its city, with or without the city's name."""
    own, vrp = Store.open(tmp_path), read_vrp(Store.open(tmp_path), str(VRP))
    save_city(own, "e", vrp.city, Addresses.numbered(21))
    put_model(own, "m", vrp.city)
    decoded = solved_day(own, str(VRP), None, city="e", model="m", samples=4, by="model")
    assert (decoded.found_by, decoded.best_known) == ("model m version 1", 375.0)
    unnamed = day_plan(own, str(VRP), None, city=None, model="m", samples=4)
    assert (unnamed.digest, unnamed.city_name) == (decoded.planned.digest, "E-n22-k4")


def test_the_default_version_is_the_champion_or_the_latest(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for version in (1, 2):
        put_model(store, "m", CITY, version)
    put_model(store, "n", CITY, 1, alias=False)
    put_model(store, "n", CITY, 2, alias=False)
    assert pointer(store, "m", "champion").version == 1
    chosen = {name: chosen_model(store, "m", name).version for name in (None, "latest", "challenger", 2)}
    assert chosen == {None: 1, "latest": 2, "challenger": 2, 2: 2}
    assert chosen_model(store, "n", None).version == 2


def test_a_model_routes_the_city_that_extends_its_own(tmp_path: Path) -> None:
    """With spare classes, the old model routes new addresses, and a note reports it."""
    store = Store.open(tmp_path)
    new = City(np.vstack([CITY.xy, [[0.3, 0.3], [0.7, 0.2]]]), extends=(40,), spare=3)
    put_model(store, "m", City(CITY.xy, spare=5))
    save_city(store, "new", new)
    solved = solved_day(store, dict.fromkeys((1, 41, 42), 3), 6, city="new", model="m", samples=2)
    assert infeasibility(solved.planned.day.instance, solved.solution) is None
    assert any("before the city was extended" in note for note in solved.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"city": "nowhere"}, "no city 'nowhere'"),
        ({"model": "absent"}, "no model 'absent'"),
        ({"spec": SolveSpec(version="challenger")}, "has no challenger"),
        ({"spec": SolveSpec(version=7)}, "has no version 7"),
        ({"model": "other"}, "routes city"),
        ({"spec": SolveSpec(by="model", fleet=4)}, "--by model does not support --fleet 4"),
        ({"city": "one-way", "spec": SolveSpec(longest_route="45km")}, "45km, but costs of the city"),
        ({"spec": SolveSpec(by="model", samples=0)}, "by model needs a model and its samples"),
        ({"orders": str(VRP), "capacity": None}, r"city 'small' is not that of E-n22-k4.vrp"),
    ],
)
def test_invalid_input_is_refused_first(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    store, orders = Store.open(tmp_path), [Order(customer="1", demand=3)]
    put_day(store)
    put_model(store, "other", City.uniform(40, seed=6))
    save_city(store, "one-way", one_way_city())
    before = store.list("")
    day: dict[str, Any] = {"city": "small", "model": "small", "orders": orders, "capacity": 20} | change
    spec = day.pop("spec", SolveSpec())
    with pytest.raises(McvrpError, match=message):
        plan_day(store, Request(**day), spec)
    assert store.list("") == before


def test_a_search_of_straight_lines_refuses_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOLVERS._entries, "lines", replace(SOLVERS["hgs"], costs="straight"))
    store = Store.open(tmp_path)
    save_city(store, "one-way", one_way_city())
    with pytest.raises(McvrpError, match="use hgs or pyvrp"):
        day_plan(store, {1: 3}, city="one-way", by="lines")


@pytest.mark.parametrize("decomposed", [False, True])
def test_members_share_the_costs_of_the_day(
    tmp_path: Path, decomposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many cores search, the day's matrix is in memory once."""
    monkeypatch.setattr("mcvrp.tasks.solve.members.in_parts", lambda *_: decomposed)
    store, city = Store.open(tmp_path), one_way_city()
    save_city(store, "away", city)
    put_model(store, "away", city)
    planned = day_plan(store, dict.fromkeys(range(1, 31), 3), city="away", model="away", threads=4)
    assert planned.rest is not None
    model, *searches = members_of(store, planned, planned.rest)
    assert isinstance(model, ModelMember)
    members = [each for each in (*searches, model.then) if isinstance(each, SearchMember)]
    assert [each.seed for each in members] == ([0, 3] if decomposed else [0, 1, 2, 3])
    assert isinstance(members[0], PartsMember) == decomposed
    assert all(each.city is members[0].city for each in members)
