"""Files of a day: they parse, their figures add up, and nothing is replaced silently."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cvrplib import parse_sol, parse_vrp
from mcvrp.tasks.solve.day import Solved, plan_day
from mcvrp.tasks.solve.map import map_page
from mcvrp.tasks.solve.outputs import SUMMARY, Place, day_name, require_free, write_day
from mcvrp.tasks.solve.readme import stops_of
from mcvrp.tasks.solve.spec import SolveSpec
from tests.support.markup import Markup
from tests.support.silent_store import Outage, check_outlasted
from tests.support.solving import CITY, put_day, put_model, solved_day

VRP = Path(__file__).parents[3] / "support" / "data" / "E-n22-k4.vrp"
FILES = {"README.md", "map.html", "map.png", "routes.csv", "routes.geojson", "spec.json", "summary.json"}
MARKUP = Addresses(tuple(f"<b>{k} & \"Söhne'" for k in range(41)))
MATHEMATICS = Addresses(tuple(f"$_{k}^$ {{" for k in range(41)))


def solved(store: Store, city: str = "small", count: int = 15, **spec: Any) -> Solved:
    demands = {k: 1 + k % 7 for k in range(1, count + 1)}
    return solved_day(store, demands, city=city, **{"samples": 4, "by": "model", **spec})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with the city, the same city with names and degrees, and with names to escape, and a model."""
    store = Store.open(tmp_path_factory.mktemp("store"))
    put_day(store)
    lonlat = np.column_stack([8 + CITY.xy[:, 0], 47 + CITY.xy[:, 1]])
    save_city(store, "earth", CITY, Addresses(tuple(f"K-{k}" for k in range(41)), lonlat))
    save_city(store, "markup", CITY, MARKUP)
    save_city(store, "mathematics", CITY, MATHEMATICS)
    return store


@pytest.fixture(scope="module")
def day(store: Store) -> Solved:
    return solved(store)


@pytest.fixture(scope="module")
def written(day: Solved, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The files of the day; read-only."""
    place = Place(Store.open(tmp_path_factory.mktemp("written")), "solutions/monday")
    assert {address.rpartition("/")[2] for address in write_day(place, day)} == FILES
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Store.open(tmp_path / "routes"), "monday")


def test_a_cvrplib_instance_has_a_solution_file(store: Store, tmp_path: Path) -> None:
    result = solved_day(store, str(VRP), None, city=None, samples=0, time_limit=2)
    folder = Store.open(tmp_path)
    assert {address.rpartition("/")[2] for address in write_day(Place(folder), result)} == FILES | {
        "E-n22-k4.sol"
    }
    parsed = parse_sol("E.sol", folder.get("E-n22-k4.sol"), parse_vrp("E.vrp", VRP.read_bytes()))
    assert parsed == (result.solution, result.summary.cost)
    readme = folder.get("README.md").decode()
    assert "`E-n22-k4.sol`" in readme
    assert "| found by | HGS |" in readme
    assert folder.get_json("spec.json")["model"] is None


def test_the_stops_add_up(day: Solved, written: Place) -> None:
    rows = pd.read_csv(io.BytesIO(written.store.get(written.path("routes.csv"))))
    instance = day.planned.day.instance
    served = rows[rows["customer"] != 0].sort_values("customer")
    assert served["customer"].tolist() == instance.ids.tolist()
    assert served["demand"].tolist() == instance.demands.tolist()
    assert rows["leg_cost"].sum() == pytest.approx(day.summary.cost, abs=1e-4)
    assert rows["route"].nunique() == day.summary.routes
    assert rows["load_after"].max() <= instance.capacity
    for _, route in rows.groupby("route"):
        assert route["stop"].tolist() == list(range(len(route)))
        assert route["customer"].iloc[[0, -1]].tolist() == [0, 0]
        assert route["load_after"].tolist() == route["demand"].cumsum().tolist()
        np.testing.assert_allclose(route["cumulative_cost"], route["leg_cost"].cumsum(), atol=1e-4)


def test_the_geojson_is_geojson(store: Store, place: Place) -> None:
    """Lines and points of RFC 7946 in degrees, with the customers' names, one line per route."""
    day = solved(store, "earth")
    write_day(place, day)
    document: Any = place.store.get_json(place.path("routes.geojson"))
    assert document.keys() == {"type", "features"}
    kinds: dict[str, list[Mapping[str, Any]]] = {"route": [], "depot": [], "customer": []}
    for feature in document["features"]:
        assert feature.keys() == {"type", "geometry", "properties"}
        assert feature["type"] == "Feature"
        kinds[feature["properties"]["kind"]].append(feature)
        points = np.reshape(feature["geometry"]["coordinates"], (-1, 2))
        assert ((points >= (8, 47)) & (points <= (9, 48))).all()
    assert (len(kinds["route"]), len(kinds["depot"])) == (day.summary.routes, 1)
    names = {feature["properties"]["customer"] for feature in kinds["customer"]}
    assert names == {f"K-{k}" for k in range(1, 16)}
    total = math.fsum(feature["properties"]["cost"] for feature in kinds["route"])
    assert total == pytest.approx(day.summary.cost, abs=1e-4)
    for feature in kinds["route"]:
        coordinates = feature["geometry"]["coordinates"]
        assert coordinates[0] == coordinates[-1] == kinds["depot"][0]["geometry"]["coordinates"]


def test_the_readme_describes_the_folder(day: Solved, written: Place) -> None:
    """All files, and coordinates that are no degrees; text of an inspection, whose JSON is the summary."""
    inspected = inspect(written.store, "solutions/monday")
    assert all(name in inspected.text for name in FILES - {"README.md"})
    assert "no longitude and latitude" in inspected.text
    assert b"no degrees" in written.store.get(written.path("routes.geojson"))
    assert inspected.document["cost"] == day.summary.cost
    assert inspected.document["seconds"].keys() == {"start_up", "search"}


def test_an_interrupted_folder_has_no_summary(
    day: Solved, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    (tmp_path / "README.md").write_text("kept")
    with pytest.raises(McvrpError, match="files that mcvrp solve did not write"):
        require_free(Place(Store.open(tmp_path)), day.planned, overwrite=True)


def test_the_name_of_a_day_is_a_folder_name(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "Ma journée — 21/../é.csv".replace("/", "_")
    file.write_text("customer,demand\n1,3\n")
    names = {
        day_name(plan_day(store, "small", "small", str(file), capacity, SolveSpec())) for capacity in (5, 6)
    }
    assert len(names) == 2
    assert all(name.startswith("Ma-journ") and name.isascii() and "/" not in name for name in names)


@pytest.mark.parametrize(("city", "count"), [("small", 1), ("small", 40), ("mathematics", 2)])
def test_a_map_of_any_day(store: Store, place: Place, tmp_path: Path, city: str, count: int) -> None:
    """One customer, more routes than colours, names that Matplotlib would typeset as mathematics."""
    names = (MATHEMATICS if city == "mathematics" else Addresses.numbered(40)).ids
    file = tmp_path / "$x_$.csv"
    file.write_text("customer,demand\n" + "".join(f"{names[k]},{1 + k % 7}\n" for k in range(1, count + 1)))
    write_day(place, solved_day(store, str(file), city=city, samples=4))
    assert place.store.get(place.path("map.png")).startswith(b"\x89PNG")
    assert place.store.size(place.path("map.png")) > 10_000


def test_a_city_of_one_place_can_be_drawn(tmp_path: Path) -> None:
    """Customers at the depot have cost 0; a width of zero is not a divisor."""
    store = Store.open(tmp_path)
    city = City(np.full((4, 2), 0.5))
    save_city(store, "small", city)
    put_model(store, "small", city)
    day = solved_day(store, dict.fromkeys((1, 2, 3), 3), 6, samples=2)
    write_day(Place(store, "solutions/x"), day)
    assert day.summary.cost == 0
    assert day.summary.found_by == "savings"
    assert "nan" not in store.get("solutions/x/map.html").decode()


def test_every_stop_of_every_route_is_on_the_page(store: Store) -> None:
    """By name on the map and in the list of its route in order; names are text, and nothing is loaded."""
    named = solved(store, "markup")
    routes = stops_of(named)
    page = map_page(named, routes)
    parsed = Markup(page)
    listed = [f"{stop.customer} ({stop.demand})" for stops in routes for stop in stops[1:-1]]
    assert parsed.texts["li"] == listed
    titled = [text for text in parsed.texts["title"] if " of route " in text]
    assert [text.split(":")[0] for text in titled] == [s.customer for stops in routes for s in stops[1:-1]]
    numbers = [values["id"] for tag, values in parsed.elements if tag == "g"]
    assert numbers == [f"r{stops[0].route}" for stops in routes]
    assert not [tag for tag, _ in parsed.elements if tag == "b"]
    assert not [v for _, v in parsed.elements if {"src", "href"} & v.keys()]
    assert "://" not in page
    assert "url(" not in page


def test_routes_are_drawn_to_scale(store: Store) -> None:
    day = solved(store)
    elements = Markup(map_page(day, stops_of(day))).elements
    lines = [v["d"] or "" for tag, v in elements if tag == "path" and v["class"] == "line"]
    drawn = [np.array(re.findall(r"-?\d+\.\d", line), dtype=float).reshape(-1, 2) for line in lines]
    xy = day.planned.city.xy
    real = [xy[[0, *route, 0]] for route in day.solution.routes]
    scale = np.ptp(drawn[0][:, 0]) / np.ptp(real[0][:, 0])
    for one, other in zip(drawn, real, strict=True):
        moved = (one - one[0]) / scale * [1, -1]
        np.testing.assert_allclose(moved, other - other[0], atol=2e-3)


@pytest.mark.parametrize("most", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_a_day_outlasts_a_silent_store(tmp_path: Path, outage: Outage, most: int | None) -> None:
    store = Store.open(tmp_path / "store")
    put_day(store)

    def routed(other: Store) -> object:
        result = solved(other, by="model", time_limit=60.0)
        place = Place(other, "solutions/monday")
        require_free(place, result.planned, overwrite=False)
        write_day(place, result)
        return result.summary.cost

    files = ("routes.csv", "routes.geojson")
    check_outlasted(store, tmp_path / "silent", outage, routed, at_least=15, exact=files, most=most)
