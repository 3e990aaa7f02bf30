"""Files of a day: they parse, their figures add up, and nothing is replaced silently."""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import parse_sol, parse_vrp
from mcvrp.tasks.solve.day import Solved, plan_day, solve_day
from mcvrp.tasks.solve.outputs import SUMMARY, Place, day_name, require_free, write_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.silent_store import Outage, check_outlasted
from tests.support.solving import CITY, put_day, put_model

VRP = Path(__file__).parents[3] / "support" / "data" / "E-n22-k4.vrp"
FILES = {"README.md", "map.html", "map.png", "routes.csv", "routes.geojson", "spec.json", "summary.json"}


def solved(store: Store, city: str = "small", count: int = 15, **spec: Any) -> Solved:
    prefix = "K-" if city == "earth" else ""
    orders = [Order(customer=f"{prefix}{k}", demand=1 + k % 7) for k in range(1, count + 1)]
    planned = plan_day(store, city, "small", orders, 20, SolveSpec(samples=4, hgs=False, **spec))
    return solve_day(store, planned, time.monotonic())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the city, the same city with names and degrees, and a model of both."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    lonlat = np.column_stack([8 + CITY.xy[:, 0], 47 + CITY.xy[:, 1]])
    save_city(store, "earth", CITY, Addresses(tuple(f"K-{k}" for k in range(41)), lonlat))
    return store


@pytest.fixture(scope="module")
def day(store: Store) -> Solved:
    return solved(store)


@pytest.fixture(scope="module")
def written(day: Solved, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The files of the day; read-only."""
    place = Place(Store.open(tmp_path_factory.mktemp("written")))
    assert {address.rpartition("/")[2] for address in write_day(place, day)} == FILES
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Store.open(tmp_path / "routes"), "monday")


def geojson(place: Place) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(place.store.get(place.path("routes.geojson")))
    return document


def test_a_cvrplib_instance_has_a_solution_file(store: Store, tmp_path: Path) -> None:
    """Its .sol has the routes and their cost, and the README names it."""
    planned = plan_day(store, None, "", str(VRP), None, SolveSpec(samples=0, time_limit=0.2))
    place = Place(Store.open(tmp_path))
    result = solve_day(store, planned, time.monotonic())
    assert {address.rpartition("/")[2] for address in write_day(place, result)} == FILES | {"E-n22-k4.sol"}
    solution, price = parse_sol(
        "E.sol", place.store.get("E-n22-k4.sol"), parse_vrp("E.vrp", VRP.read_bytes())
    )
    assert (solution, price) == (result.solution, result.summary.cost)
    readme = place.store.get("README.md").decode()
    assert "`E-n22-k4.sol`" in readme
    assert "HGS, without a model" in readme
    assert json.loads(place.store.get("spec.json"))["model"] is None


def test_the_stops_add_up(day: Solved, written: Place) -> None:
    """Every customer once, loads within capacity, legs sum to the cost, routes begin and end at the depot."""
    rows = list(csv.DictReader(written.store.get("routes.csv").decode().splitlines()))
    instance = day.planned.day.instance
    served = [row for row in rows if row["customer"] != "0"]
    assert sorted(int(row["customer"]) for row in served) == instance.ids.tolist()
    assert sum(int(row["demand"]) for row in served) == instance.demands.sum()
    assert sum(float(row["leg_cost"]) for row in rows) == pytest.approx(day.summary.cost, abs=1e-4)
    for number in range(1, day.summary.routes + 1):
        route = [row for row in rows if int(row["route"]) == number]
        assert [int(row["stop"]) for row in route] == list(range(len(route)))
        assert route[0]["customer"] == route[-1]["customer"] == "0"
        load = distance = 0.0
        for row in route:
            load += int(row["demand"])
            distance += float(row["leg_cost"])
            assert int(row["load_after"]) == load <= instance.capacity
            assert float(row["cumulative_cost"]) == pytest.approx(distance, abs=1e-4)


def test_the_geojson_is_geojson(store: Store, place: Place) -> None:
    """Lines and points of RFC 7946 in degrees, with the customers' names, one line per route."""
    day = solved(store, "earth")
    write_day(place, day)
    document = geojson(place)
    assert document.keys() == {"type", "features"}
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for feature in document["features"]:
        assert feature.keys() == {"type", "geometry", "properties"}
        assert feature["type"] == "Feature"
        geometry = feature["geometry"]
        kinds.setdefault(feature["properties"]["kind"], []).append(feature)
        line = geometry["type"] == "LineString"
        for longitude, latitude in geometry["coordinates"] if line else [geometry["coordinates"]]:
            assert 8 <= longitude <= 9
            assert 47 <= latitude <= 48
    assert len(kinds["route"]) == day.summary.routes
    assert len(kinds["depot"]) == 1
    names = {feature["properties"]["customer"] for feature in kinds["customer"]}
    assert names == {f"K-{k}" for k in range(1, 16)}
    total = math.fsum(feature["properties"]["cost"] for feature in kinds["route"])
    assert total == pytest.approx(day.summary.cost, abs=1e-4)
    for feature in kinds["route"]:
        coordinates = feature["geometry"]["coordinates"]
        assert coordinates[0] == coordinates[-1] == kinds["depot"][0]["geometry"]["coordinates"]


def test_coordinates_other_than_degrees_are_declared(written: Place) -> None:
    """In the document, which a map program would otherwise misplace, and in the README."""
    assert "no degrees" in geojson(written)["coordinates"]
    assert "no longitude and latitude" in written.store.get("README.md").decode()


def test_the_readme_describes_the_folder(day: Solved, written: Place) -> None:
    """README, map and summary exist; the README names all files, the summary has the figures."""
    assert written.store.get("map.png").startswith(b"\x89PNG")
    readme = written.store.get("README.md").decode()
    assert all(name in readme for name in FILES - {"README.md"})
    summary = written.store.get_json(SUMMARY)
    assert summary["cost"] == day.summary.cost
    assert summary["seconds"].keys() == {"start_up", "decoding", "polishing", "comparing"}


def test_a_solution_in_the_store_can_be_inspected(day: Solved, written: Place, tmp_path: Path) -> None:
    """Text: its README; JSON: its summary."""
    store = Store.open(tmp_path)
    for name in FILES:
        store.put(f"solutions/monday/{name}", written.store.get(name))
    result = inspect(store, "solutions/monday")
    assert "routes.geojson" in result.text
    assert result.document["cost"] == day.summary.cost


def test_an_interrupted_folder_has_no_summary(
    day: Solved, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped while it replaces a day leaves no summary."""
    place.store.put(place.path(SUMMARY), b"{}")
    put = Store.put

    def full(self: Store, path: str, data: bytes) -> None:
        if path.endswith("map.png"):
            raise McvrpError("the disk is full")
        put(self, path, data)

    monkeypatch.setattr(Store, "put", full)
    with pytest.raises(McvrpError, match="full"):
        write_day(place, day)
    assert not place.store.exists(place.path(SUMMARY))


def test_nothing_is_replaced_silently(store: Store, day: Solved, written: Place, tmp_path: Path) -> None:
    """Same orders: a note. Other orders: refused, or a note. Other files: always refused."""
    other = solved(store, count=3)
    assert require_free(Place(written.store, "new"), day.planned, overwrite=False) is None
    assert "same orders" in str(require_free(written, day.planned, overwrite=False))
    with pytest.raises(McvrpError, match="routes of other orders"):
        require_free(written, other.planned, overwrite=False)
    assert "other orders" in str(require_free(written, other.planned, overwrite=True))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("kept")
    with pytest.raises(McvrpError, match="files that mcvrp solve did not write"):
        require_free(Place(Store.open(tmp_path / "mine")), day.planned, overwrite=True)


def test_the_name_of_a_day_is_a_folder_name(store: Store, tmp_path: Path) -> None:
    """For any file name; other orders, or another capacity, have another name."""
    file = tmp_path / "Ma journée — 21/../é.csv".replace("/", "_")
    file.write_text("customer,demand\n1,3\n")
    names = {
        day_name(plan_day(store, "small", "small", str(file), capacity, SolveSpec())) for capacity in (5, 6)
    }
    assert len(names) == 2
    assert all(name.startswith("Ma-journ") and name.isascii() and "/" not in name for name in names)


@pytest.mark.parametrize("count", [1, 40])
def test_a_map_of_any_day(store: Store, place: Place, count: int) -> None:
    """One customer; all of them, more routes than colours."""
    write_day(place, solved(store, count=count))
    assert place.store.size(place.path("map.png")) > 10_000


def test_names_are_not_typeset_as_mathematics(store: Store, tmp_path: Path) -> None:
    """A map can be drawn for any names of addresses and files."""
    names = tuple(f"$_{k}^$ {{" for k in range(41))
    save_city(store, "dollars", CITY, Addresses(names))
    file = tmp_path / "$x_$.csv"
    file.write_text(f"customer,demand\n{names[1]},3\n{names[2]},4\n")
    planned = plan_day(store, "dollars", "small", str(file), 20, SolveSpec(samples=1, hgs=False))
    write_day(Place(store, "solutions/dollars"), solve_day(store, planned, time.monotonic()))
    assert store.exists("solutions/dollars/map.png")


def test_a_city_of_one_place_can_be_drawn(tmp_path: Path) -> None:
    """Customers at the depot have cost 0 and raise no error."""
    store = Store.open(tmp_path)
    city = City(np.full((4, 2), 0.5))
    save_city(store, "small", city)
    put_model(store, "small", city)
    orders = [Order(customer=str(k), demand=3) for k in (1, 2, 3)]
    planned = plan_day(store, "small", "small", orders, 6, SolveSpec(samples=2))
    day = solve_day(store, planned, time.monotonic())
    write_day(Place(store, "solutions/x"), day)
    assert day.summary.cost == 0
    assert "no comparison: HGS gave up" in day.summary.notes[-1]


@pytest.mark.parametrize("most", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_a_day_outlasts_a_silent_store(tmp_path: Path, outage: Outage, most: int | None) -> None:
    """The routes are the same, whichever request gets no response for a while."""
    store = Store.open(tmp_path / "store")
    put_day(store)

    def routed(other: Store) -> object:
        result = solved(other, polish="none", time_limit=60.0)
        place = Place(other, "solutions/monday")
        require_free(place, result.planned, overwrite=False)
        write_day(place, result)
        return result.summary.cost

    files = ("routes.csv", "routes.geojson")
    check_outlasted(store, tmp_path / "silent", outage, routed, at_least=15, exact=files, most=most)
