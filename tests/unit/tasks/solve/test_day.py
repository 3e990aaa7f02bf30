"""Routing of a day: feasible within the time limit, never worse after polishing, invalid input refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from mcvrp.model.decoding import Sampling, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.network import FmMcvrp
from mcvrp.model.problem import City, Instance, cost, infeasibility
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import read_vrp
from mcvrp.tasks.solve.day import chosen_model, plan_day, solve_day
from mcvrp.tasks.solve.readme import solve_figures
from mcvrp.tasks.solve.search import Routed, _polished, _SearchClock, baseline, route
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.support.pool import Pool
from tests.support.labels import sweep
from tests.support.solving import CITY, day_plan, one_way_city, put_day, put_model, solved_day

VRP = Path(__file__).parents[3] / "support" / "data" / "E-n22-k4.vrp"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    return store


@pytest.fixture(scope="module")
def network(store: Store) -> FmMcvrp:
    return load_model(store, "small")[0]


def instance(n: int, city: City = CITY, capacity: int = 20) -> Instance:
    rng = np.random.default_rng(n)
    ids = np.sort(rng.choice(np.arange(1, city.customers + 1), n, replace=False))
    return Instance(city.city_id, ids, rng.integers(1, 10, n), capacity)  # type: ignore[arg-type]


def routed(network: FmMcvrp, day: Instance, city: City = CITY, **spec: Any) -> Routed:
    return route(network, city, day, SolveSpec(**spec), rotations=1000)


@pytest.mark.parametrize("polish", ["none", "local-search", "hgs", "pyvrp"])
@pytest.mark.parametrize("n", [1, 2, 25])
def test_routes_serve_everybody(network: FmMcvrp, n: int, polish: str) -> None:
    """Feasible, at the city's cost, never above that of the best sample; local search improves it a lot."""
    day, local = instance(n), polish == "local-search"  # ends by itself; other searches use all of their time
    result = routed(network, day, samples=8, polish=polish, time_limit=30.0 if local else 0.3)
    assert infeasibility(day, result.solution) is None
    assert result.cost == cost(CITY, result.solution)
    assert result.cost <= result.sampled * (0.8 if n > 2 and local else 1) + 1e-9
    assert result.samples >= 4


@pytest.mark.parametrize("polish", ["none", "local-search"])
def test_the_same_seed_gives_the_same_routes(network: FmMcvrp, polish: str) -> None:
    """With enough time, samples are those of one batch, and the rest follows from them."""
    day = instance(15)
    one, other = (
        routed(network, day, samples=20, polish=polish, time_limit=60, seed=3, p=0.7) for _ in range(2)
    )
    assert one.solution == other.solution
    (together,) = decode(network, CITY, [day], strategy=Sampling(0.7), samples=20, rotations=1000, seed=3)
    assert one.samples == 20
    assert one.sampled == pytest.approx(together.costs.min())


def test_the_time_limit_ends_decoding(network: FmMcvrp) -> None:
    result = routed(network, instance(40), samples=100_000, time_limit=0.5, polish="local-search")
    assert 4 <= result.samples < 100_000


def test_threads_are_as_before(network: FmMcvrp) -> None:
    before = torch.get_num_threads()
    result = routed(network, instance(5), samples=1, threads=before + 1)
    assert torch.get_num_threads() == before
    assert result.device == "1 CPU core"


def test_more_cores_draw_the_same_samples(network: FmMcvrp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool.__init__, "__defaults__", (0.0,))
    day = instance(15)
    one, two = (routed(network, day, samples=1500, polish="none", time_limit=600, threads=k) for k in (1, 2))
    assert (one.samples, one.sampled, one.solution) == (two.samples, two.sampled, two.solution)


@pytest.mark.parametrize(("on_cpu", "share"), [(True, 0.25), (False, 1.0)])
def test_equal_time_is_processor_time_of_all_processes(
    monkeypatch: pytest.MonkeyPatch, on_cpu: bool, share: float
) -> None:
    """On a busy machine, a part of the time; on a GPU it is wall-clock time."""
    clock = _SearchClock(on_cpu=on_cpu)
    wall, processor = time.perf_counter(), time.process_time()
    monkeypatch.setattr(time, "perf_counter", lambda: wall + 40.0)
    monkeypatch.setattr(time, "process_time", lambda: processor + 10.0)
    assert clock.share() == pytest.approx(share, rel=1e-2)
    clock.children = 1000.0
    assert (clock.fair() > 1000) == on_cpu
    assert clock.share() == pytest.approx(1, rel=1e-2)


def test_a_search_gets_its_share_of_the_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """HGS counts processor time: it gets 2 of 8 s on a machine that provides a quarter."""
    limits = Mock()
    monkeypatch.setattr(HGS, "search", lambda self, *run: limits(self.time_limit) and run[-1][0])
    day = instance(12)
    samples = [sweep(CITY, day)]
    assert _polished(CITY, day, samples, SolveSpec(polish="hgs"), 8.0, 0.25) == samples
    limits.assert_called_once_with(2.0)


def test_costs_that_depend_on_the_direction(network: FmMcvrp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs come from the matrix, routes keep their direction, and PyVRP is the baseline."""
    city = one_way_city()
    monkeypatch.setattr(network, "city_id", city.city_id)
    day = instance(12, city)
    result = routed(network, day, city, samples=8)
    assert infeasibility(day, result.solution) is None
    assert result.cost == float(city.legs(result.solution.path).sum())
    assert baseline(city, day, 0.1, 0).label == "PyVRP"
    assert baseline(CITY, instance(12), 0.1, 0).label == "HGS"


def test_a_day_from_orders_to_summary(store: Store) -> None:
    orders = [Order(customer=str(k), demand=3) for k in (3, 8, 3, 20)]
    planned = plan_day(store, "small", "small", orders, 10, SolveSpec(samples=4))
    summary = solve_day(store, planned, time.monotonic()).summary
    assert (summary.lines, summary.customers, summary.demand, summary.capacity) == (4, 3, 12, 10)
    assert summary.utilisation == pytest.approx(12 / (summary.routes * 10))
    assert summary.compared is not None
    assert summary.compared.gap == pytest.approx(100 * (summary.own_cost / summary.compared.cost - 1))
    assert any("2 orders of customer '3' merged into one of 6" in note for note in summary.notes)
    assert any("trained on 20 to 24 customers and this day has 3" in note for note in summary.notes)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from(["none", "local-search"]))
def test_the_cheapest_routes_are_written_whoever_found_them(
    store: Store, seed: int, n: int, polish: str
) -> None:
    rng = np.random.default_rng(seed)
    orders = {int(k): int(rng.integers(1, 9)) for k in rng.permutation(40)[:n] + 1}
    solved = solved_day(store, orders, 12, samples=2, polish=polish, time_limit=0.05, seed=seed)
    summary, day = solved.summary, solved.planned.day.instance
    assert summary.compared is not None
    assert infeasibility(day, solved.solution) is None
    assert summary.cost == cost(CITY, solved.solution) == min(summary.own_cost, summary.compared.cost)
    assert summary.compared.written == (summary.compared.cost < summary.own_cost)
    figures = solve_figures(summary)
    assert figures["found by"].startswith("HGS" if summary.compared.written else "model small")
    assert "(+" in figures["in equal time"]


@pytest.mark.parametrize(("polish", "search"), [("local-search", "hgs"), ("pyvrp", "pyvrp")])
def test_a_day_without_a_model(store: Store, polish: str, search: str) -> None:
    """HGS searches, or the named solver; a search is not compared with itself."""
    spec = {"samples": 0, "polish": polish, "time_limit": 0.2}
    solved = solved_day(store, dict.fromkeys((3, 8, 20, 21), 3), 10, model="absent", **spec)
    result = solved.summary
    assert infeasibility(solved.planned.day.instance, solved.solution) is None
    assert (result.model, result.model_version, result.best_sample, result.samples) == (None, None, None, 0)
    assert (result.polish, result.compared is None) == (search, search == "hgs")


def test_an_instance_of_cvrplib_is_a_day(store: Store, tmp_path: Path) -> None:
    """It needs neither city nor model, and HGS finds the optimum; a model of its city decodes it."""
    result = solved_day(store, str(VRP), None, city=None, model="", samples=0, time_limit=0.5)
    summary = result.summary
    day = ("E-n22-k4", 21, 6000, "units")
    assert (summary.city, summary.customers, summary.capacity, summary.unit) == day
    assert (summary.cost, summary.best_known) == (375.0, 375.0)
    own, vrp = Store.open(tmp_path), read_vrp(store, str(VRP))
    save_city(own, "e", vrp.city, Addresses.numbered(21))
    put_model(own, "m", vrp.city)
    decoded = solved_day(own, str(VRP), None, city="e", model="m", samples=4, hgs=False)
    assert (decoded.summary.model, decoded.planned.digest) == ("m", result.planned.digest)
    assert day_plan(own, str(VRP), None, city=None, model="m", samples=4).digest == result.planned.digest


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
    assert any("before the city was extended" in note for note in solved.summary.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"city": "nowhere"}, "no city 'nowhere'"),
        ({"model": "absent"}, "no model 'absent'"),
        ({"spec": SolveSpec(version="challenger")}, "has no challenger"),
        ({"spec": SolveSpec(version=7)}, "has no version 7"),
        ({"model": "other"}, "routes city"),
        ({"city": "one-way", "spec": SolveSpec(polish="hgs")}, "polish with pyvrp"),
        ({"orders": str(VRP), "capacity": None}, r"city 'small' is not that of E-n22-k4.vrp"),
        ({"orders": [Order(customer="77", demand=3)]}, "'77' is not a customer of city 'small'"),
        ({"capacity": 2}, "more than the capacity of a vehicle, 2"),
    ],
)
def test_invalid_input_is_refused_first(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    store, orders = Store.open(tmp_path), [Order(customer="1", demand=3)]
    put_day(store)
    put_model(store, "other", City.uniform(40, seed=6))
    save_city(store, "one-way", one_way_city())
    before = store.list("")
    day: dict[str, Any] = {"city": "small", "model": "small", "orders": orders, "capacity": 20}
    with pytest.raises(McvrpError, match=message):
        plan_day(store, **({"spec": SolveSpec()} | day | change))
    assert store.list("") == before
