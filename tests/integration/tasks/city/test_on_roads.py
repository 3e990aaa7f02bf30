"""Import and extension of cities with costs along roads, by a real OSRM with Helsinki's centre."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import stored_city
from mcvrp.storage.layout import city_readme
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import AddressFile, CitySpec, PlannedCity, make_city, plan_city
from mcvrp.tasks.city.osrm_server import Osrm, osrm
from mcvrp.tasks.support.processes import is_alive
from tests.integration.tasks.city.test_roads import connected, somewhere
from tests.support.datasets import everything
from tests.support.shared import until

pytest_plugins = ["tests.support.osrm"]
FAR = 24.99, 60.185  # a bay without roads


class Desk:
    """A store, a cache, and Helsinki's roads."""

    def __init__(self, folder: Path, extract: Path) -> None:
        self.folder, self.extract, self.cache = folder, extract, folder / "cache"
        self.store = Store.open(folder / "store")
        with osrm(str(extract), "car", self.cache) as server:
            places = somewhere(60)
            answer = server.ask("table", places, annotations="duration")
        costs = np.array(answer["durations"], dtype=float)
        near = np.array([place["distance"] < 300 for place in answer["sources"]])
        good = connected(costs)
        lost = np.isnan(costs + costs.T)[good].all(axis=0)
        self.good, self.lost = places[good & near], places[lost & near]

    def file(self, name: str, places: NDArray[np.float64], first: int = 0) -> str:
        rows = (f"c{first + k},{lat!r},{lon!r}" for k, (lon, lat) in enumerate(places.tolist()))
        (self.folder / name).write_text("\n".join(["id,lat,lon", *rows, ""]))
        return str(self.folder / name)

    def spec(self, file: str, name: str = "own", source: str | None = None, **roads: Any) -> CitySpec:
        found = {"file": file, "depot": "c0", "roads": {"source": source or str(self.extract), **roads}}
        return CitySpec(name=name, source="imported", addresses=AddressFile.model_validate(found))

    def extension(self, file: str, **more: Any) -> CitySpec:
        addresses = AddressFile.model_validate({"file": file, "extends": "own", **more})
        return CitySpec(name="more", source="imported", addresses=addresses)

    def make(self, spec: CitySpec) -> PlannedCity:
        return make_city(self.store, spec, self.cache)


@pytest.fixture
def desk(helsinki: Path, tmp_path: Path) -> Desk:
    return Desk(tmp_path, helsinki)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of coordinates of all requests."""
    requests, ask = list[int](), Osrm.ask

    def counting(self: Osrm, service: str, lonlat: NDArray[np.float64], **options: str) -> Any:
        requests.append(len(lonlat))
        return ask(self, service, lonlat, **options)

    monkeypatch.setattr(Osrm, "ask", counting)
    return requests


def server_costs(desk: Desk, places: NDArray[np.float64], kind: str = "duration") -> NDArray[np.float64]:
    with osrm(str(desk.extract), "car", desk.cache) as server:
        return np.array(server.ask("table", places, annotations=kind)[f"{kind}s"], dtype=float)


@pytest.mark.parametrize(("by", "unit"), [("time", "s"), ("distance", "m")])
def test_the_costs_of_a_city_are_those_of_its_roads(desk: Desk, by: str, unit: str) -> None:
    """The depot first, wherever its row is; the store has them and where they are from."""
    places = desk.good[:12]
    spec = desk.spec(desk.file("own.csv", places[[3, 1, 2, 0, *range(4, 12)]]), by=by)
    assert spec.addresses is not None
    addresses = spec.addresses.model_copy(update={"depot": "c3"})
    city = desk.make(spec.model_copy(update={"addresses": addresses})).city
    back = stored_city(desk.store, "own")
    order = [0, 3, 1, 2, *range(4, 12)]
    expected = server_costs(desk, places, "duration" if by == "time" else "distance")[np.ix_(order, order)]
    assert city.unit == unit
    assert back.city.matrix is not None
    assert np.array_equal(back.city.matrix, expected)
    assert back.roads is not None
    assert (back.roads.source, back.roads.by, back.roads.profile) == ("Helsinki.osm.pbf", by, "car")
    card = desk.store.get(city_readme("own")).decode()
    assert back.roads.extract is not None
    for part in (f"`{by}, Helsinki.osm.pbf ({back.roads.extract[:8]}), car`", f"{by} along roads, in {unit}"):
        assert part in card


def test_a_city_that_exists_is_not_asked_for_again(desk: Desk, asked: list[int]) -> None:
    """Unless its roads are others."""
    file = desk.file("own.csv", desk.good[:9])
    desk.make(spec := desk.spec(file))
    count = len(asked)
    before = everything(desk.store)
    assert desk.make(spec).exists
    assert plan_city(desk.store, spec).exists  # without a cache
    assert len(asked) == count
    assert everything(desk.store) == before
    with pytest.raises(McvrpError, match="another city named 'own'"):
        desk.make(desk.spec(file, by="distance"))
    with pytest.raises(McvrpError, match=r"own\.csv needs costs along roads: import it first"):
        plan_city(desk.store, desk.spec(file, name="new"))


def test_an_extension_asks_for_new_rows_and_columns_only(desk: Desk, asked: list[int]) -> None:
    """By the parent's profile and kind of cost; the costs are those of all addresses asked at once."""
    places = desk.good[:15]
    desk.make(desk.spec(desk.file("own.csv", places[:12]), by="distance"))
    file, roads = desk.file("more.csv", places), {"source": str(desk.extract)}
    asked.clear()
    child = desk.make(desk.extension(file, roads=roads))
    assert sorted(asked) == [3 + 3, 12 + 3, 3 + 12]
    assert child.city.accepts(stored_city(desk.store, "own").city.city_id)
    assert child.city.matrix is not None
    assert np.array_equal(child.city.matrix, server_costs(desk, places, "distance"))
    asked.clear()
    assert desk.make(desk.extension(file, roads=roads)).exists
    assert asked == []


def test_a_server_is_asked_by_its_address(desk: Desk) -> None:
    """An extension asks the same, or one of another address."""
    places = desk.good[:9]
    own, more = desk.file("own.csv", places[:6]), desk.file("more.csv", places[6:], 6)
    with osrm(str(desk.extract), "car", desk.cache) as server:
        city = desk.make(desk.spec(own, source=f"{server.url}/")).city
        roads = stored_city(desk.store, "own").roads
        assert roads is not None
        assert (roads.source, roads.profile, roads.extract) == (server.url, None, None)
        assert city.matrix is not None
        child = desk.make(desk.extension(more)).city
        assert child.matrix is not None
        assert np.array_equal(child.matrix, server_costs(desk, places))
    with osrm(str(desk.extract), "car", desk.cache) as other:
        spec = desk.extension(more, roads={"source": other.url})
        again = plan_city(desk.store, spec.model_copy(update={"name": "third"}), desk.cache)
        assert again.city.city_id == child.city_id


def test_a_server_of_other_roads_does_not_extend_a_city(desk: Desk) -> None:
    """As one of pedestrians at another address; its costs beside those of cars would be silently wrong."""
    own, more = desk.file("own.csv", desk.good[:6]), desk.file("more.csv", desk.good[6:9], 6)
    with osrm(str(desk.extract), "car", desk.cache) as server:
        desk.make(desk.spec(own, source=server.url))
    with osrm(str(desk.extract), "foot", desk.cache) as other:
        spec = desk.extension(more, roads={"source": other.url})
        with pytest.raises(McvrpError, match=f"{other.url} has other roads than those of the city"):
            desk.make(spec)


def test_addresses_without_a_road_are_all_named_or_left_out(desk: Desk) -> None:
    """Those that are too far, and those that are cut off; the depot may not be one of them."""
    places = np.vstack([desk.good[:8], [FAR], desk.lost[:2]])
    file = desk.file("own.csv", places)
    with pytest.raises(McvrpError) as caught:
        desk.make(desk.spec(file))
    for part in ("row 10: 'c8' is", "m from the nearest road (limit: 300 m)", "row 11: 'c9' has no road"):
        assert part in str(caught.value)
    assert str(caught.value).count("--leave-out") == 1
    made = desk.make(desk.spec(file, leave_out=True))
    assert made.addresses is not None
    assert made.addresses.ids == tuple(f"c{k}" for k in range(8))
    assert made.city.matrix is not None
    assert np.array_equal(made.city.matrix, server_costs(desk, places[:8]))
    assert "3 addresses without a road are left out: c8, c9 and c10" in made.notes
    for depot, part in ((FAR, "'c0' is"), (desk.lost[0], "'c0' has no road")):
        lost = desk.file("lost.csv", np.vstack([depot, desk.good[:8]]))
        with pytest.raises(McvrpError, match=part):
            desk.make(desk.spec(lost, "lost", leave_out=True))
    more = desk.file("more.csv", np.vstack([desk.good[8:10], desk.lost[:1]]), 20)
    roads = {"source": str(desk.extract)}
    with pytest.raises(McvrpError, match="row 4: 'c22' has no road"):
        desk.make(desk.extension(more, roads=roads))
    child = desk.make(desk.extension(more, roads=roads | {"leave_out": True}))
    assert child.city.customers == 9
    assert desk.make(desk.extension(more, roads=roads | {"leave_out": True})).exists


def test_an_address_that_was_left_out_is_asked_for_once_it_has_moved(desk: Desk) -> None:
    """The city is then another one; the same place is left out again."""
    places = np.vstack([desk.good[:5], [FAR]])
    desk.make(desk.spec(file := desk.file("own.csv", places), leave_out=True))
    assert desk.make(desk.spec(file, leave_out=True)).exists
    moved = desk.file("own.csv", desk.good[:6])
    with pytest.raises(McvrpError, match="another city named 'own'"):
        desk.make(desk.spec(moved, leave_out=True))


def test_an_import_whose_server_dies_can_be_repeated(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, nothing is written."""
    spec, ask = desk.spec(desk.file("own.csv", desk.good[:15])), Osrm.ask

    def dying(self: Osrm, service: str, lonlat: NDArray[np.float64], **options: str) -> Any:
        for process in psutil.Process().children():
            if process.name() == "osrm-routed":
                process.kill()
                process.wait()
        return ask(self, service, lonlat, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Osrm, "ask", dying)
        with pytest.raises(McvrpError, match="no OSRM server answers at http"):
            desk.make(spec)
    assert everything(desk.store) == {}
    city = desk.make(spec).city
    assert city.matrix is not None
    assert np.array_equal(city.matrix, server_costs(desk, desk.good[:15]))


_IMPORT = """
import sys, time
from pathlib import Path
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import CitySpec, make_city
from mcvrp.tasks.city.osrm_server import Osrm
Osrm.ask = lambda *args, **options: time.sleep(600)
store, cache, spec = sys.argv[1:]
make_city(Store.open(store), CitySpec.model_validate_json(spec), Path(cache))
"""


def test_an_import_that_is_killed_leaves_nothing(desk: Desk) -> None:
    """Its server ends with it, and the store is as before."""
    spec = desk.spec(desk.file("own.csv", desk.good[:15]))
    arguments = str(desk.folder / "store"), str(desk.cache), spec.model_dump_json()
    with subprocess.Popen([sys.executable, "-c", _IMPORT, *arguments]) as importing:
        until("its server", 60, lambda: psutil.Process(importing.pid).children(), pause=0.02)
        (routed,) = psutil.Process(importing.pid).children()
        importing.kill()
    until("the server ends", 5, lambda: not is_alive(routed))
    assert everything(desk.store) == {}


def test_roads_that_do_not_fit_are_refused(desk: Desk, tmp_path: Path) -> None:
    file, more = desk.file("own.csv", desk.good[:5]), desk.file("more.csv", desk.good[5:7], 5)
    desk.make(desk.spec(file))
    (tmp_path / "plane.csv").write_text("id,x,y\nc0,0,0\nc1,1,1\n")
    (tmp_path / "costs.npy").write_bytes(b"")
    (other := tmp_path / "other.osm.pbf").write_bytes(desk.extract.read_bytes() + b"\0")
    (own := tmp_path / "van.lua").write_text("")
    extract = str(desk.extract)
    for spec, part in (
        (desk.spec(str(tmp_path / "plane.csv"), "plane"), "plane.csv has x and y, but roads need degrees"),
        (desk.extension(more), "along the roads of Helsinki.osm.pbf: give that extract"),
        (desk.extension(more, matrix=str(tmp_path / "costs.npy")), "along roads: leave the matrix out"),
        (desk.extension(more, roads={"source": extract, "by": "distance"}), "other roads .time, Helsinki"),
        (desk.extension(more, roads={"source": extract, "profile": "foot"}), "now: time, .*, foot"),
        (desk.extension(more, roads={"source": extract, "profile": str(own)}), "now: .*van-e3b0c442.lua"),
        (desk.extension(more, roads={"source": str(other)}), r"now: time, other.osm.pbf \("),
        (desk.extension(more, roads={"source": "http://127.0.0.1:1"}), "now: time, http://127.0.0.1:1"),
    ):
        with pytest.raises(McvrpError, match=part):
            plan_city(desk.store, spec, desk.cache)
    with pytest.raises(McvrpError, match=r"cache of roads in .*own\.csv cannot be written"):
        plan_city(desk.store, desk.spec(file, "new"), Path(file))
    straight = CitySpec(name="own", source="imported", addresses=AddressFile(file=file, depot="c0"))
    with pytest.raises(McvrpError, match="another city named 'own'"):
        desk.make(straight)
    desk.make(straight.model_copy(update={"name": "straight"}))
    spec = desk.extension(more, extends="straight", roads={"source": extract})
    with pytest.raises(McvrpError, match="'straight' are not along roads: leave the roads out"):
        plan_city(desk.store, spec, desk.cache)
