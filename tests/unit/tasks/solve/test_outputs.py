"""Files of a day: they parse, their figures add up, and nothing is replaced silently."""

from __future__ import annotations

import datetime
import io
import math
import re
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import python_calamine as calamine
from matplotlib.figure import Figure

from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, save_city, stored_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.take import take_routes
from mcvrp.tasks.files.cells import Dialect
from mcvrp.tasks.files.cvrplib import parse_sol, parse_vrp
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.solve.day import Solved, solve_day
from mcvrp.tasks.solve.map import _apart, map_page, route_map
from mcvrp.tasks.solve.outputs import (
    SUMMARY,
    Place,
    day_name,
    require_free,
    route_table,
    write_day,
)
from mcvrp.tasks.solve.plan import Request, plan_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.stops import stops_of
from mcvrp.tasks.support.pictures import png
from tests.support.datasets import everything
from tests.support.killed import killed_at_each_write
from tests.support.labels import driven_label
from tests.support.markup import Markup
from tests.support.solving import CITY, put_model, solved_day
from tests.support.workbook import xlsx

pytestmark = pytest.mark.usefixtures("forked_members", "impatient")
DATE = datetime.date(2026, 2, 20)
VRP = Path(__file__).parents[3] / "support" / "data" / "E-n22-k4.vrp"
FILES = {
    *("README.md", "map.html", "map.png", "routes.csv", "routes.geojson", "routes.xlsx"),
    *("spec.json", "summary.json"),
}
MARKUP = Addresses(tuple(f"<b>{k} & \"Söhne'" for k in range(41)))
LONG = "long " * 1000
FURTHER = {
    "Name": tuple(f"<i>Shop & {k}</i>" for k in range(41)),
    "route": tuple("north" if k % 2 else "" for k in range(41)),  # also a column of routes.csv
    "Note": tuple("=1+1" if k % 2 else LONG for k in range(41)),
}
LONLAT = np.column_stack([8 + CITY.xy[:, 0], 47 + CITY.xy[:, 1]])
NAMES = Addresses.numbered(CITY.customers)
SHOPS = Addresses(tuple(f"K-{k}" for k in range(41)), LONLAT, None, FURTHER, {"id": "Code client"})
ORDERS = "Code client;Demand;name;Note\nK-1;3;<i>Shop & 1</i>;bell\nK-2;4;;\nK-3;5;;\nK-1;2;;dog\n"
MATHEMATICS = Addresses(tuple(f"$_{k}^$ {{" for k in range(41)))


def solved(store: Store, city: str = "small", count: int = 15, **spec: Any) -> Solved:
    demands = {k: 1 + k % 7 for k in range(1, count + 1)}
    return solved_day(store, demands, city=city, **{"samples": 4, "by": "model", **spec})


@pytest.fixture(scope="module")
def store(store: Store) -> Store:
    """Also with the same city with names and degrees, and with names to escape."""
    save_city(store, "earth", CITY, Addresses(tuple(f"K-{k}" for k in range(41)), LONLAT))
    save_city(store, "shops", CITY, SHOPS)
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


@pytest.fixture(scope="module")
def carried(store: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Solved, Place]:
    """A day whose addresses and orders have further columns, and its files."""
    folder = tmp_path_factory.mktemp("carried")
    (folder / "monday.csv").write_text(ORDERS)
    day = solved_day(store, str(folder / "monday.csv"), 9, city="shops", samples=4, by="model", date=DATE)
    place = Place(Store.open(folder / "routes"))
    write_day(place, day)
    return day, place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Store.open(tmp_path / "routes"), "monday")


def test_a_cvrplib_instance_has_a_solution_file(store: Store, tmp_path: Path) -> None:
    result = solved_day(store, str(VRP), None, city=None, samples=0, time_limit=20)
    folder = Store.open(tmp_path)
    assert {address.rpartition("/")[2] for address in write_day(Place(folder), result)} == FILES | {
        "E-n22-k4.sol"
    }
    parsed = parse_sol("E.sol", folder.get("E-n22-k4.sol"), parse_vrp("E.vrp", VRP.read_bytes()))
    assert parsed == (result.solution, result.cost)
    assert result.cost == result.best_known == 375.0
    readme = folder.get("README.md").decode()
    assert "`E-n22-k4.sol`" in readme
    assert "| found by | HGS |" in readme
    assert folder.get_json("spec.json")["model"] is None
    fewer = solved_day(store, str(VRP), None, city=None, samples=0, time_limit=1, fleet=3, drop=True)
    written = {address.rpartition("/")[2] for address in write_day(Place(folder), fewer)}
    assert set(folder.list("")) == written == FILES | {"unserved.csv"}


def test_the_stops_add_up(day: Solved, written: Place) -> None:
    rows = pd.read_csv(io.BytesIO(written.store.get(written.path("routes.csv"))))
    instance = day.planned.day.instance
    served = rows[rows["customer"] != 0].sort_values("customer")
    assert served["customer"].tolist() == instance.ids.tolist()
    assert served["demand"].tolist() == instance.demands.tolist()
    assert rows["leg_cost"].sum() == pytest.approx(day.cost, abs=1e-4)
    assert rows["route"].nunique() == len(day.solution.routes)
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
    assert (len(kinds["route"]), len(kinds["depot"])) == (len(day.solution.routes), 1)
    names = {feature["properties"]["customer"] for feature in kinds["customer"]}
    assert names == {f"K-{k}" for k in range(1, 16)}
    total = math.fsum(feature["properties"]["cost"] for feature in kinds["route"])
    assert total == pytest.approx(day.cost, abs=1e-4)
    for feature in kinds["route"]:
        coordinates = feature["geometry"]["coordinates"]
        assert coordinates[0] == coordinates[-1] == kinds["depot"][0]["geometry"]["coordinates"]


def test_the_readme_describes_the_folder(day: Solved, written: Place) -> None:
    """All files, and coordinates that are no degrees; the summary is JSON."""
    inspected = inspect(written.store, "solutions/monday")
    assert all(name in inspected.text for name in FILES - {"README.md"})
    assert "no longitude and latitude" in inspected.text
    summary = inspect(written.store, "solutions/monday/summary.json").document
    assert (summary["cost"], summary["seconds"].keys()) == (day.cost, {"start_up", "search"})


def test_service_times_have_the_decimal_sign_of_their_file(
    store: Store, place: Place, tmp_path: Path
) -> None:
    """In routes.csv, where other numbers have it; GeoJSON has points."""
    city = City(CITY.xy, matrix=CITY.costs(np.arange(41)), unit="s")
    save_city(store, "timed", city)
    (tmp_path / "day.csv").write_text("customer;demand;service\n1;3;90,5\n2;4000;60\n")
    spec = SolveSpec(shift=28_800.0, time_limit=0.2, threads=1)
    planned = plan_day(store, Request(str(tmp_path / "day.csv"), "timed", capacity=5000), spec)
    write_day(place, solve_day(store, planned, time.monotonic()))
    data = place.store.get(place.path("routes.csv"))
    table = read_tabular("routes.csv", data)
    served = table.frame[table.text("customer") == "1"]
    assert served["service_seconds"].tolist() == ["90,5"]
    assert b"90.5" not in data
    assert b'"service_seconds": "90.5"' in place.store.get(place.path("routes.geojson"))


def test_a_day_was_made_from_its_city_and_all_of_its_orders(store: Store, place: Place) -> None:
    """A city that is not in the store is none to link to; customers who are left out have orders, too."""
    orders = [Order(customer=str(k), demand=9) for k in (1, 2, 3)]
    for city, parents in (("small", ["cities/small", "file:orders"]), (CITY, ["file:orders"])):
        spec = SolveSpec(fleet=1, drop=True, threads=1, time_limit=0.3)
        planned = plan_day(store, Request(orders, city, capacity=18), spec)
        day = solve_day(store, planned, time.monotonic())
        assert day.unserved
        write_day(place, day)
        made_from = place.store.get_json(place.path(SUMMARY))["provenance"]["parents"]
        assert [each["path"] for each in made_from] == parents
        assert made_from[-1]["hash"] == planned.digest


def test_nothing_is_replaced_silently(store: Store, day: Solved, written: Place, tmp_path: Path) -> None:
    """Other orders or capacity are refused without --overwrite, other files always."""
    other = solved(store, count=3)
    require_free(Place(written.store, "new"), day.planned, overwrite=False)
    require_free(written, day.planned, overwrite=False)
    of = f"{day.planned.day.source}, small, {day.planned.day.instance.capacity}"
    with pytest.raises(McvrpError, match=rf"routes of other orders, city or capacity \({of}\)"):
        require_free(written, other.planned, overwrite=False)
    require_free(written, other.planned, overwrite=True)
    (tmp_path / "README.md").write_text("kept")
    with pytest.raises(McvrpError, match="files that mcvrp solve did not write"):
        require_free(Place(Store.open(tmp_path)), day.planned, overwrite=True)


def test_the_name_of_a_day_is_a_folder_name(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "Ma journée — 21/../é.csv".replace("/", "_")
    file.write_text("customer,demand\n1,3\n")
    names = {
        day_name(plan_day(store, Request(str(file), "small", "small", capacity), SolveSpec()))
        for capacity in (5, 6)
    }
    assert len(names) == 2
    assert all(name.startswith("Ma-journ") and name.isascii() and "/" not in name for name in names)


@pytest.mark.parametrize(("city", "count"), [("small", 1), ("small", 40), ("mathematics", 2)])
def test_a_map_of_any_day(store: Store, place: Place, tmp_path: Path, city: str, count: int) -> None:
    """One customer, more routes than colours, names that Matplotlib would typeset as mathematics."""
    names = (MATHEMATICS if city == "mathematics" else Addresses.numbered(40)).ids
    file = tmp_path / "$x_$.csv"
    file.write_text("customer,demand\n" + "".join(f"{names[k]},{1 + k % 7}\n" for k in range(1, count + 1)))
    write_day(place, solved_day(store, str(file), city=city, samples=0, time_limit=0.5))
    assert place.store.get(place.path("map.png")).startswith(b"\x89PNG")
    assert place.store.size(place.path("map.png")) > 10_000


@pytest.mark.parametrize("turn", range(4))
def test_the_number_of_a_route_is_within_the_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """Its box touches neither the title nor the axes, wherever the farthest customer is."""
    figures = list[Figure]()

    def drawn(figure: Figure) -> bytes:
        figures.append(figure)
        return png(figure)

    monkeypatch.setattr("mcvrp.tasks.solve.map.png", drawn)
    store, angles = Store.open(tmp_path), np.arange(9) + turn * np.pi / 2
    places = np.column_stack([np.cos(angles), np.sin(angles)]) * np.linspace(1, 2, 9)[:, None]
    save_city(store, "small", City(np.vstack([np.zeros((1, 2)), places]) / 4 + 0.5))
    route_map(solved_day(store, dict.fromkeys(range(1, 10), 1), 2, model=None, samples=0, time_limit=0.3))
    (figure,) = figures
    frame = figure.axes[0].bbox
    boxes = [patch.get_window_extent() for text in figure.axes[0].texts if (patch := text.get_bbox_patch())]
    assert len(boxes) == 5
    for box in boxes:
        assert np.all(box.min >= frame.min)
        assert np.all(box.max <= frame.max)


def test_a_city_of_one_place_can_be_drawn(tmp_path: Path) -> None:
    """Customers at the depot have cost 0; a width of zero is not a divisor."""
    store = Store.open(tmp_path)
    city = City(np.full((4, 2), 0.5))
    save_city(store, "small", city)
    put_model(store, "small", city)
    day = solved_day(store, dict.fromkeys((1, 2, 3), 3), 6, samples=2)
    write_day(Place(store, "solutions/x"), day)
    assert day.cost == 0
    assert day.found_by == "a quick first plan"
    assert not re.search(r"\bnan\b", store.get("solutions/x/map.html").decode(), re.IGNORECASE)


def test_every_stop_of_every_route_is_on_the_page(store: Store) -> None:
    """By name on the map and in the list of its route in order; names are text, and nothing is loaded."""
    named = solved(store, "markup")
    routes = stops_of(named)
    page = map_page(named)
    parsed = Markup(page)
    listed = [f"{stop.customer}, demand {stop.demand}" for stops in routes for stop in stops[1:-1]]
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
    elements = Markup(map_page(day)).elements
    lines = [v["d"] or "" for tag, v in elements if tag == "path" and v["class"] == "line"]
    drawn = [np.array(re.findall(r"-?\d+\.\d", line), dtype=float).reshape(-1, 2) for line in lines]
    xy = day.planned.city.xy
    real = [xy[[0, *route, 0]] for route in day.solution.routes]
    scale = np.ptp(drawn[0][:, 0]) / np.ptp(real[0][:, 0])
    for one, other in zip(drawn, real, strict=True):
        moved = (one - one[0]) / scale * [1, -1]
        np.testing.assert_allclose(moved, other - other[0], atol=2e-3)


def test_further_columns_are_in_the_routes(carried: tuple[Solved, Place]) -> None:
    """By names unlike ours, those of the orders only if they say more; in the dialect of the orders."""
    day, place = carried
    data = place.store.get("routes.csv")
    assert b"'=1+1" in data  # text, not a formula
    rows = read_tabular("routes.csv", data)
    assert rows.dialect == day.planned.day.dialect == Dialect(";", ",", "utf-8-sig")
    own = ("date", "route", "stop", "customer", "demand", "capacity", "load_after", "leg_cost")
    further = ("name", "address_route", "note", "order_note")
    assert tuple(rows.frame.columns) == (*own, "cumulative_cost", "lat", "lon", *further)
    lon, lat = (rows.numbers(name, Faults("f")) for name in ("lon", "lat"))
    for k, customer in enumerate(rows.text("customer")):
        node = int(customer[2:])
        assert (lon[k], lat[k]) == pytest.approx(LONLAT[node], abs=1e-6)
        for name, title in (("name", "Name"), ("address_route", "route"), ("note", "Note")):
            assert rows.text(name)[k] == FURTHER[title][node].strip()
        assert rows.text("order_note")[k] == {1: "bell; dog"}.get(node, "")
    features: Any = place.store.get_json("routes.geojson")
    points = {each["properties"].get("customer"): each["properties"] for each in features["features"]}
    assert points["K-1"]["Name"] == FURTHER["Name"][1]
    assert points["K-1"]["order_Note"] == "bell; dog"
    assert points["K-0"]["Note"] == LONG


def test_numbers_of_further_columns_are_numbers_in_the_workbook(store: Store, tmp_path: Path) -> None:
    """Those in the decimal sign of the orders; codes and other text stay text, as the files have them."""
    rows = [["customer", "demand", "Empties", "Level", "Code"], ["1", 3, 1.5, "1.5", "007"]]
    rows += [["2", 4, "none", 2.5, 7], ["3", 4, 20, "", ""]]
    (tmp_path / "monday.xlsx").write_bytes(xlsx({"Orders": rows}))
    prices = tuple(f"{k}.25" if k != 3 else "3.0" for k in range(41))
    further = {"Price": prices, "Phone": tuple(f"0{k}" for k in range(41))}
    save_city(store, "priced", CITY, Addresses(NAMES.ids, further=further))
    day = solved_day(store, str(tmp_path / "monday.xlsx"), 20, city="priced", model=None, samples=0)
    write_day(Place(Store.open(tmp_path / "out")), day)
    table = read_tabular("routes.csv", (tmp_path / "out" / "routes.csv").read_bytes())
    by_customer = table.frame.set_index("customer")[["price", "phone", "empties", "level", "code"]]
    assert by_customer.loc[["1"]].to_numpy().tolist()[0] == ["1.25", "01", "1.5", "1.5", "007"]
    assert by_customer.loc[["2"]].to_numpy().tolist()[0] == ["2.25", "02", "none", "2.5", "7"]
    book = calamine.CalamineWorkbook.from_path(tmp_path / "out" / "routes.xlsx")
    stops = {row[2]: row[-5:] for row in book.get_sheet_by_name("Stops").to_python()}
    assert stops["1"] == [1.25, "01", 1.5, 1.5, "007"]
    assert stops["3"] == [3, "03", 20, "", ""]
    route = {row[1]: row[2:4] for row in book.get_sheet_by_name("Route 1").to_python()[4:]}
    assert route["2"] == [2.25, "02"]


def test_the_workbook_prints_on_a4(carried: tuple[Solved, Place]) -> None:
    """An overview and a sheet per vehicle, its stops in full width, without a formula."""
    day, place = carried
    data = place.store.get("routes.xlsx")
    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    routes = stops_of(day)
    assert book.sheet_names == ["Overview", *(f"Route {stops[0].route}" for stops in routes), "Stops"]
    for stops in routes:
        (title, *_), _, _, header, *lines = book.get_sheet_by_name(f"Route {stops[0].route}").to_python()
        assert title == f"Route {stops[0].route}, Friday 2026-02-20"
        left = [line[header.index("Load left")] for line in lines]
        assert left == [stops[-1].load_after - stop.load_after for stop in stops]
        assert [line[-1] for line in lines] == ["", *["☐"] * (len(stops) - 2), ""]
        assert header[:5] == ["Stop", "Customer", "Name", "address_route", "Note"]
        assert [line[1] for line in lines] == [stop.customer for stop in stops]
        assert [line[0] for line in lines] == ["depot", *range(1, len(stops) - 1), "depot"]
        assert all(line[4] == "=1+1" for line in lines if line[1] in ("K-1", "K-3"))
        assert max(len(str(line[4])) for line in lines) <= 300
    overview = book.get_sheet_by_name("Overview").to_python()[4:]
    assert [line[1] for line in overview] == [len(stops) - 2 for stops in routes]
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        for k, title in enumerate(book.sheet_names, start=1):
            sheet = parts.read(f"xl/worksheets/sheet{k}.xml").decode()
            assert re.search(r'<pageSetup paperSize="9"[^>]*fitToHeight="0"', sheet)
            assert "<f>" not in sheet
            widths = list(map(float, re.findall(r'<col [^>]*width="([0-9.]+)"', sheet)))
            assert title == "Overview" or min(widths) < 10  # that of a stop's number
        assert parts.read("xl/workbook.xml").decode().count("_xlnm.Print_Titles") == len(book.sheet_names)


def test_the_map_names_and_numbers_stops(carried: tuple[Solved, Place]) -> None:
    """Each route has the numbers of its stops; lists and tooltips have demand and columns."""
    day, place = carried
    parsed, routes = Markup(place.store.get("map.html").decode()), stops_of(day)
    assert parsed.texts["text"] == [str(stop.stop) for stops in routes for stop in stops[1:-1]]
    assert any(text.endswith(", Friday 2026-02-20") for text in parsed.texts["h1"])
    tooltip = next(text for text in parsed.texts["title"] if text.startswith("K-1:"))
    assert "demand 5, stop" in tooltip
    assert "Name: <i>Shop & 1</i>" in tooltip
    assert "order_Note: bell; dog" in tooltip
    assert all(len(text) < 600 for text in parsed.texts["title"])


def test_a_day_with_columns_of_its_own_is_read_with_those_of_the_city(store: Store, tmp_path: Path) -> None:
    """The columns of the orders that the city would read are carried under other names."""
    parcels = replace(SHOPS, columns={"id": "Code", "demand": "Colis"})
    save_city(store, "parcels", CITY, parcels)
    (tmp_path / "monday.csv").write_text("Ref;Code;Poids;Colis\nK-1;K-9;5;2\nK-2;K-8;7;2\n")
    columns = {"id": "Ref", "demand": "Poids"}
    options: Any = {"city": "parcels", "samples": 4, "by": "model", "date": DATE, "columns": columns}
    day, place = solved_day(store, str(tmp_path / "monday.csv"), 9, **options), Place(Store.open(tmp_path))
    write_day(place, day)
    own = Store.open(tmp_path / "driven")
    own.put("incoming/monday.csv", place.store.get("routes.csv"))
    taken, _ = take_routes(own, stored_city(store, "parcels"), today=DATE)
    assert taken.refused == ()
    driven = driven_label(own, "parcels", str(DATE))
    assert (driven.instance.ids.tolist(), driven.instance.demands.tolist()) == ([1, 2], [5, 7])
    header = place.store.get("routes.csv").splitlines()[0].decode()
    assert header.endswith(";order_Code;order_Colis")


def test_a_day_that_was_killed_at_any_write_is_written_again(
    day: Solved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over earlier routes of the same orders; a folder with a summary is whole, that of then or of now."""
    monkeypatch.setattr("mcvrp.tasks.solve.map.route_map", lambda _: b"a picture")  # drawn anew for each

    def write(there: Store) -> None:
        place = Place(there, "solutions/monday")
        require_free(place, day.planned, overwrite=False)
        write_day(place, day)

    before = Store.open(tmp_path / "store")
    write(before)
    for name in ("README.md", "map.png"):
        before.put(f"solutions/monday/{name}", b"earlier")
    earlier, ends = everything(before), []
    for there, _ in killed_at_each_write(before, tmp_path, write, at_least=10):
        left = everything(there)
        write(there)
        ends.append(everything(there))
        assert f"solutions/monday/{SUMMARY}" not in left or left in (earlier, ends[0])
    assert all(end == ends[0] != earlier for end in ends)


def test_lengths_have_two_decimals_and_one_is_no_plural(store: Store, place: Place) -> None:
    """In all texts, with the unit, and in the table, as its unit is a length."""
    save_city(store, "km", City.framed(CITY.xy[:3] * 9, None, unit="km"))
    write_day(place, solved_day(store, {1: 3}, 9, city="km", model=None, time_limit=0.3))
    table = pd.read_csv(io.BytesIO(place.store.get(place.path("routes.csv"))))
    np.testing.assert_array_equal(table["leg_cost"], table["leg_cost"].round(2))
    for name in ("README.md", "map.html"):
        text = place.store.get(place.path(name)).decode()
        assert re.search(r"\d\.\d{1,2}(&nbsp;| )km\b", text)
        assert not re.search(r"\d\.\d{3,} ?km\b|\b1 (customers|orders|routes|stops)\b", text)


def test_arrivals_count_driving_and_service(store: Store, tmp_path: Path) -> None:
    """At each stop, after a start time, past midnight too: in all files. Without it, in minutes."""
    costs = np.array([[0.0, 600, 700], [600, 0, 30], [630, 30, 0]])
    city = City.framed(np.array([[0.0, 0], [0, 6], [1, 6]]), costs, unit="s")
    save_city(store, "line", city)
    (tmp_path / "day.csv").write_text("customer,demand,service\n1,1,5min\n2,1,\n2,1,90min\n")
    for start, arrivals, departures in (
        ("8:00", ["", "08:10", "08:16", "09:56"], ["08:00", "08:15", "09:46", ""]),
        ("23:50", ["", "00:00 +1", "00:06 +1", "01:46 +1"], ["23:50", "00:05 +1", "01:36 +1", ""]),
        (None, None, None),
    ):
        options: dict[str, Any] = {"start_time": start} if start else {}
        demands = str(tmp_path / "day.csv")
        day = solved_day(store, demands, 9, city="line", model=None, time_limit=0.3, **options)
        place = Place(Store.open(tmp_path / f"{start}"))
        write_day(place, day)
        table = pd.read_csv(io.BytesIO(place.store.get("routes.csv")), keep_default_na=False)
        minutes = [0, 10, 15.5, 116] if start else [0, 10, 10.5, 21]
        assert table["arrival_minutes"].tolist() == minutes
        points = [each["properties"] for each in place.store.get_json("routes.geojson")["features"]]
        named = {each["customer"]: each for each in points if each["kind"] == "customer"}
        assert named["2"]["arrival_minutes"] == minutes[2]
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(place.store.get("routes.xlsx")))
        header, *rows = book.get_sheet_by_name("Route 1").to_python()[3:]
        if start is None:
            assert "arrival" not in table
            assert header[-2] == "Since the depot (min)"
            assert [row[-2] for row in rows] == [0, 10, 10, 21]  # whole ones
            assert "after 10 min" in map_page(day)
            continue
        assert table["arrival"].tolist() == arrivals
        assert table["departure"].tolist() == departures
        assert header[-3:-1] == ["Arrival", "Departure"]
        assert "Service time" in header
        assert [row[-3:-1] for row in rows] == [list(both) for both in zip(arrivals, departures, strict=True)]
        for text in (map_page(day), route_table(day)):
            assert arrivals[-1] in text
        assert f"demand 2, at {arrivals[2]}" in map_page(day)


def test_a_vehicle_that_has_left_keeps_its_departure(store: Store, tmp_path: Path) -> None:
    """Of its plan's routes.csv, where the others leave at the start time of the new plan."""
    costs = 600.0 - 600.0 * np.eye(4)
    save_city(store, "square", City.framed(np.array([[0.0, 0], [0, 6], [6, 6], [6, 0]]), costs, unit="s"))
    demands, keep, place = {1: 9, 2: 9, 3: 9}, tmp_path / "routes.csv", Place(Store.open(tmp_path))
    options: dict[str, Any] = {"city": "square", "model": None, "time_limit": 0.3}
    write_day(place, solved_day(store, demands, 9, start_time="08:00", **options))
    stops = keep.read_text().splitlines(keepends=True)
    keep.write_text("".join(line for line in stops if not line.startswith("3,")))
    for start, times in (("9:00", ["08:00", "08:00", "09:00"]), (None, [None] * 3)):
        solved = solved_day(store, demands, 9, keep=str(keep), start_time=start, **options)
        assert [route[0].departure for route in stops_of(solved)] == times
    write_day(place, solved_day(store, demands, 9, keep=str(keep), **options))
    again = solved_day(store, demands, 9, **options).planned
    with pytest.raises(McvrpError, match="holds routes that were kept"):
        require_free(place, again, overwrite=False)
    require_free(place, again, overwrite=True)
    keep.write_text("".join(stops[:5]).replace("08:00", "08:00:00"))  # as a cell of a workbook is read
    kept = solved_day(store, demands, 9, keep=str(keep), **options).planned.kept
    assert kept is not None
    assert set(kept.starts) == {"08:00"}
    keep.write_text("".join(stops[:5]).replace("08:00", "soon"))
    with pytest.raises(McvrpError, match=r"row 2: departure is 'soon', not a time of day such as 08:00"):
        solved_day(store, demands, 9, keep=str(keep), **options)


def test_dots_of_near_neighbours_are_drawn_apart() -> None:
    """Also those of one place; what is far from all others stays, as does the depot."""
    places = np.array([[0.0, 0.0], [0.2, 0.0], [0.2, 0.0], [0.0, 0.3], [9.0, 9.0]])
    apart = _apart(places, 1.0)
    distance = np.hypot(*(apart[:, None] - apart).transpose(2, 0, 1))
    assert distance[~np.eye(5, dtype=bool)].min() > 0.95
    assert np.array_equal(apart[0], places[0])
    assert np.abs(apart[4] - places[4]).max() <= 0.01
