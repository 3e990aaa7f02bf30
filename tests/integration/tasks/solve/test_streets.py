"""Routes along the streets of Helsinki's centre, by a real OSRM: what is drawn, and what if it is gone."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyproj import Geod

from mcvrp.flows.cli import main as cli
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, RoadFacts, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.addresses import centred, to_metres
from mcvrp.tasks.city.osrm_server import osrm, sha256_of
from mcvrp.tasks.city.roads import UNITS, By, road_costs
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.streets import on_streets
from tests.integration.tasks.city.test_roads import answering, connected, somewhere
from tests.support.markup import Markup
from tests.support.solving import solved_day

pytest_plugins = ["tests.support.osrm"]
DEMANDS = {node: 1 + node % 4 for node in range(1, 16)}


def put_town(
    store: Store,
    extract: Path,
    cache: Path,
    by: By,
    server: str = "",
    factor: float = 1.0,
    profile: tuple[str, str] = ("car", "car"),  # as it is given, and as facts have it
) -> None:
    """Add the city "town" of places in Helsinki that all reach each other.

    Its costs, times ``factor``, are said to be those of ``server``, otherwise of ``extract``.
    """
    places = somewhere(60)
    with osrm(str(extract), profile[0], cache) as started:
        roads, _ = road_costs(started, places, by)
    nodes = np.flatnonzero(connected(roads))[:20].tolist()
    lonlat = places[nodes]
    projection = centred(lonlat)
    costs = factor * roads[np.ix_(nodes, nodes)]
    city = City.framed(to_metres(projection, lonlat), costs, unit=UNITS[by])
    ids = tuple(f"K{k}" for k in range(len(nodes)))
    facts = RoadFacts(source=server or extract.name, by=by, snap=300.0)
    if not server:
        facts = replace(facts, profile=profile[1], extract=sha256_of(extract))
    save_city(store, "town", city, Addresses(ids, lonlat, projection), roads=facts)


def routed(store: Store, **options: Any) -> Solved:
    return solved_day(store, DEMANDS, city="town", model=None, samples=0, time_limit=0.5, **options)


def features(solved: Solved, folder: Path) -> list[dict[str, Any]]:
    write_day(Place(Store.open(folder)), solved)
    return [
        feature
        for feature in json.loads((folder / "routes.geojson").read_text())["features"]
        if feature["properties"]["kind"] == "route"
    ]


@pytest.mark.parametrize("by", ["time", "distance"])
def test_routes_are_drawn_along_streets(helsinki: Path, store: Store, tmp_path: Path, by: By) -> None:
    """By what the import has kept, without the extract: each line is as long as its legs, which cost what the
    city says; the map has the same lines."""
    put_town(store, helsinki, tmp_path / "cache", by)
    solved = on_streets(routed(store), tmp_path / "cache")
    assert solved.ways_note == ""
    city, routes = solved.planned.city, solved.solution.routes
    for route, way, feature in zip(routes, solved.ways, features(solved, tmp_path / "out"), strict=True):
        line = np.array(feature["geometry"]["coordinates"])
        length = Geod(ellps="WGS84").line_length(*line.T) / 1000
        assert len(line) > 3 * len(route)
        assert length == pytest.approx(way.metres.sum() / 1000, rel=0.01)
        legs = way.seconds if by == "time" else way.metres
        assert legs == pytest.approx(city.legs(np.array([0, *route, 0])), abs=6)
    page = Markup((tmp_path / "out" / "map.html").read_text())
    drawn = [values["d"] or "" for tag, values in page.elements if values.get("class") == "line"]
    assert [line.count("L") for line in drawn] == [len(way.line) - 1 for way in solved.ways]
    assert "along the streets" in (tmp_path / "out" / "README.md").read_text()


def test_streets_of_a_profile_of_the_users_own(helsinki: Path, store: Store, tmp_path: Path) -> None:
    programs = Path(shutil.which("osrm-extract") or "").resolve().parents[1]
    shutil.copytree(programs / "share" / "profiles", tmp_path / "profiles")
    own = (tmp_path / "profiles" / "car.lua").rename(tmp_path / "profiles" / "van.lua")
    own.write_text(own.read_text() + "\n-- a van")
    named = f"van-{sha256_of(own)[:8]}.lua"
    put_town(store, helsinki, tmp_path / "cache", "time", profile=(str(own), named))
    assert on_streets(routed(store), tmp_path / "cache").ways_note == ""


@contextmanager
def gone() -> Iterator[str]:
    yield "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("server", "part"),
    [
        (gone, "no OSRM server answers at http://127.0.0.1:1"),
        (lambda: answering(200, b"<html>"), "is no OSRM server"),
        (
            lambda: answering(400, b'{"code": "NoRoute", "message": "Impossible"}'),
            "gives no way ('Impossible')",
        ),
        (lambda: answering(200, b'{"code": "Ok", "routes": [{"geometry": {}}]}'), "gives no way"),
        (lambda: answering(200, b"", 60.0), "no OSRM server answers"),
    ],
)
def test_without_its_server_lines_are_straight(
    helsinki: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Any, part: str
) -> None:
    """Soon, and the note says why; the routes are the same."""
    monkeypatch.setattr("mcvrp.tasks.solve.streets._PATIENCE", 0.3)
    with server() as address:
        put_town(store, helsinki, tmp_path / "cache", "time", address)
        before = routed(store)
        began = time.monotonic()
        solved = on_streets(before, tmp_path / "cache")
        assert time.monotonic() - began < 30
    assert (solved.ways, solved.solution) == ((), before.solution)
    assert solved.ways_note.startswith("routes are drawn as straight lines, not along streets: ")
    assert part in solved.ways_note
    assert solved.ways_note in solved.notes
    for route, feature in zip(solved.solution.routes, features(solved, tmp_path / "out"), strict=True):
        assert len(feature["geometry"]["coordinates"]) == len(route) + 2


def test_what_takes_too_long_in_all_is_left(
    helsinki: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcvrp.tasks.solve.streets._SECONDS", 0.0)
    put_town(store, helsinki, tmp_path / "cache", "time")
    assert "took more than 0 s" in on_streets(routed(store), tmp_path / "cache").ways_note


def test_streets_that_are_not_those_of_the_costs_are_named(
    helsinki: Path, store: Store, tmp_path: Path
) -> None:
    put_town(store, helsinki, tmp_path / "cache", "time", factor=1.1)
    solved = on_streets(routed(store), tmp_path / "cache")
    assert solved.ways
    assert "are not those of the city's costs: the time of the routes is" in solved.ways_note


def test_the_command_takes_the_extract_of_the_costs_only(
    helsinki: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another one is refused, and so is any for a city without roads. Without one, lines are straight."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCVRP_STORE", "store")
    monkeypatch.setenv("MCVRP_CACHE", str(tmp_path / "empty"))
    store = Store.open(tmp_path / "store")
    put_town(store, helsinki, tmp_path / "cache", "time")
    (tmp_path / "day.csv").write_text("customer,demand\nK1,2\nK2,3\n")
    (tmp_path / "other.osm.pbf").write_bytes(helsinki.read_bytes() + b" ")
    command = ["solve", "day.csv", "--capacity", "9", "--time-limit", "120", "--samples", "0"]

    def run(*options: str, code: int = 0) -> str:
        assert cli.run([*command, *options]) == code
        output = capsys.readouterr()
        return output.out + output.err

    assert "--roads other.osm.pbf: the costs of city 'town' are of Helsinki.osm.pbf" in run(
        "--roads", "other.osm.pbf", "--out", "out", code=2
    )
    assert "missing.osm.pbf cannot be read" in run("--roads", "missing.osm.pbf", "--out", "out", code=2)
    assert not Path("out").exists()
    assert "note: routes are drawn as straight lines" in run("--out", "straight")
    assert "straight lines" not in run("--roads", str(helsinki), "--out", "out")
    assert "straight lines" not in run("--out", "again")  # its graph is kept now
    written = [Path(each, "routes.geojson").read_text() for each in ("out", "again", "straight")]
    assert written[0] == written[1] != written[2]
    save_city(store, "town", replace(City.uniform(9, seed=1), address_ids=()))
    assert "are not those of roads" in run("--roads", "http://127.0.0.1:1", code=2)


def test_a_city_without_facts_of_roads_has_nothing_to_say(store: Store, tmp_path: Path) -> None:
    save_city(store, "town", City.uniform(20, seed=1))
    solved = routed(store)
    assert on_streets(solved, tmp_path / "cache") is solved
