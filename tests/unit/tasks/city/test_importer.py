"""Import and extension of cities; invalid files are tested by `tests.properties.test_malformed_inputs`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError
from pyproj import Geod, Proj

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import DEPOT, Solution
from mcvrp.storage.cities import stored_city
from mcvrp.storage.layout import city_dir, city_path, city_readme
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.addresses import centred, to_metres
from mcvrp.tasks.city.importer import import_city
from mcvrp.tasks.city.make import AddressFile, CitySpec, PlannedCity, make_city, plan_city
from tests.support.address_files import ADDED, CITY, CUSTOMERS, MORE
from tests.support.datasets import everything
from tests.support.malformed import COSTS, PAIRS, TRIANGLE, npy, parquet, sound

VRP = Path(__file__).parents[3] / "support" / "data" / "E-n22-k4.vrp"
GOLDEN = "a0a6e917928e355f"  # the id of the sound file
OWN: dict[str, Any] = {"depot": "1", "unit": "km", "demand": (1, 5), "capacity": (9, 9)}
NAMED = """Code client;Name;Customer;lat;lon;depot
d;Depot;;45,76;4,84;1
a;Anna;Shop "A";45,77;4,85;
b;;=1+1;45,75;4,86;
c;;;45,74;4,83;
"""


def imported(tmp_path: Path, data: str | bytes, name: str = "own.csv", **options: Any) -> PlannedCity:
    file = tmp_path / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return import_city(Store.open(tmp_path / "store"), AddressFile(file=str(file), **options))


DIALECTS = {
    "plain": sound(),
    "decimal commas": sound().replace(",", ";").replace(".", ","),
    "names": sound((1, "ID, Latitude ,LON,Depot")),
    "spaces": sound((3, " a , 45.77 , 4.85 , false ")),
    "truth": sound((2, "d,45.76,4.84,TRUE")),
    "numbers": parquet(pd.read_csv(io.StringIO(sound().replace("no", "0")))),  # where text may be
}


@pytest.mark.parametrize("data", DIALECTS.values(), ids=DIALECTS)
def test_dialects_of_one_file_are_one_city(tmp_path: Path, data: str | bytes) -> None:
    made = imported(tmp_path, data)
    assert made.city.city_id == GOLDEN
    assert made.addresses.ids == ("d", "a", "b", "c")
    assert made.notes == ()


def test_ids_of_two_unicode_forms_are_one(store: Store, tmp_path: Path) -> None:
    """In addresses, --depot, --columns, costs and extensions; a file with both forms of an id is refused."""
    one, two = "Caf\u00e9", "Cafe\u0301"  # é as one character, and as two

    def file(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    for written, depot in ((one, two), (two, one)):
        text = f"Num\u00e9ro,x,y\n{written},0,0\na,3,4\n"
        costs = file("costs.csv", f"from,to,cost\n{depot},a,1\na,{depot},2\n")
        columns = {"id": "Nume\u0301ro"}
        made = imported(tmp_path, text, depot=depot, columns=columns, matrix=costs)
        assert made.addresses.ids == (one, "a")
    with pytest.raises(McvrpError, match=f"row 3: id '{one}' is a duplicate of row 2"):
        imported(tmp_path, f"id,x,y,depot\n{one},0,0,1\n{two},3,4,\n")
    own = spec_of(file("own.csv", f"id,x,y,depot\nd,0,0,1\n{one},3,4,\n"))
    make_city(store, own)
    more = spec_of(file("more.csv", f"id,x,y\n{two},3,4\nb,1,1\n"), "child", extends="own")
    planned = plan_city(store, more)
    assert planned.city.customers == 2
    assert "1 new address" in planned.notes


def test_an_instance_of_cvrplib_is_a_city(tmp_path: Path) -> None:
    made = imported(tmp_path, VRP.read_text(), "E-n22-k4.vrp", spare=7)
    assert (made.city.customers, made.city.spare, made.city.unit) == (21, 7, "units")
    assert (made.city.demand, made.city.capacity) == ((100, 2500), (6000, 6000))
    assert made.addresses.ids == tuple(map(str, range(22)))
    assert made.city.matrix is not None
    assert made.city.matrix[0, 1] == 49  # of (145, 215) to (151, 264): 49.37
    exact = imported(tmp_path, VRP.read_text(), "E-n22-k4.vrp", unrounded=True)
    assert exact.city.matrix is None


@pytest.mark.parametrize(
    "fields",
    [
        {"demand": (0, 4)},
        {"demand": (5, 4)},
        {"demand": (1, 70_000)},
        {"demand": (1, 40)},  # the paper's vehicles may hold 30
        {"capacity": (5, 8)},  # the paper's orders may be 9
        {"demand": (1, 40), "capacity": (39, 60)},
        {"spare": -1},
        {"unit": "a unit"},
        {"extends": "lyon", "demand": (1, 4)},
        {"extends": "../lyon"},
    ],
)
def test_options_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    """The spec is validated before a file is read."""
    with pytest.raises(ValidationError):
        AddressFile(file="any.csv", **fields)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *(("E.vrp", {key: value}, f"defines its own {key}") for key, value in OWN.items()),
        ("own.csv", {"unrounded": True}, r"is not a \.vrp file, for which unrounded is meant"),
        ("named.csv", {"columns": {"id": "Code"}}, "no column 'Code'"),
        ("named.csv", {"columns": {"id": "Name", "lat": "name"}}, "'Name' cannot be two fields"),
        ("named.csv", {}, "or give --columns id=NAME"),
    ],
)
def test_an_option_that_does_not_fit_the_file_is_named(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    """An instance of CVRPLIB, addresses, and addresses with columns of other names."""
    data = {"E.vrp": VRP.read_text(), "own.csv": sound(), "named.csv": NAMED.replace("Customer", "Shop")}
    with pytest.raises(McvrpError, match=message):
        imported(tmp_path, data[name], name, **options)


def test_nodes_follow_the_file_with_the_depot_in_front(store: Store) -> None:
    made = import_city(store, AddressFile(file=str(CITY)))
    frame = pd.read_csv(CITY)
    assert made.city.customers == CUSTOMERS
    assert made.addresses.ids[DEPOT] == "DEPOT"
    assert list(made.addresses.ids[1:]) == [name for name in frame["id"] if name != "DEPOT"]
    nodes = made.addresses.nodes(frame["id"])
    assert made.addresses.names(nodes) == frame["id"].tolist()
    assert made.addresses.lonlat is not None
    np.testing.assert_array_equal(made.addresses.lonlat[nodes], frame[["lon", "lat"]].to_numpy())
    assert made.addresses.nodes(["unknown"]).tolist() == [-1]
    assert made.city.spare == 50
    unit = made.city.unit_xy
    assert unit.min() >= 0
    assert unit.max() <= 1
    assert np.ptp(unit, axis=0).max() == pytest.approx(1)


@given(
    st.floats(-170, 170),
    st.floats(-75, 75),
    st.lists(st.tuples(st.floats(-120, 120), st.floats(-120, 120)), min_size=5, max_size=5),
)
@settings(max_examples=40)
def test_the_projection_keeps_lengths_and_can_be_undone(
    lon: float, lat: float, offsets: list[tuple[float, float]]
) -> None:
    """Distances are the ellipsoid's within 0.1 %; the inverse exists."""
    east, north = np.array(offsets).T
    places = np.column_stack(
        [
            lon + east / (111.2 * np.cos(np.radians(lat))),
            np.clip(lat + north / 111.2, -89, 89),
        ]
    )
    projection = centred(places)
    xy = to_metres(projection, places)
    back = np.column_stack(Proj(projection)(*xy.T, inverse=True))  # type: ignore[misc]
    assert np.abs(back - places).max() < 1e-6
    a, b = np.triu_indices(len(places), 1)
    _, _, truth = Geod(ellps="WGS84").inv(*places[a].T, *places[b].T)
    np.testing.assert_allclose(np.hypot(*(xy[a] - xy[b]).T), truth, rtol=1e-3, atol=0.01)


def town(count: int, *others: str, lat: float = 47.47, lon: float = 8.1, width: float = 0.1) -> str:
    """Return addresses in degrees, uniform in a square, the first of which is the depot, and ``others``."""
    steps = np.random.default_rng(1).uniform(-width / 2, width / 2, (count, 2)).tolist()
    places = [(lat + north, (lon + east + 180) % 360 - 180) for north, east in steps]
    rows = [f"n{k},{north:.5f},{east:.5f},{int(k == 0)}" for k, (north, east) in enumerate(places)]
    return "\n".join(["id,lat,lon,depot", *rows, *others, ""])


def test_an_address_far_from_the_others_is_noted(tmp_path: Path) -> None:
    """Among any number, in degrees and in a plane."""
    rows = "".join(f"n{k},{k % 5},{k // 5},{int(k == 0)}\n" for k in range(20))
    for data, names in (
        (town(4, "x,48.47,8.1,0"), "'x'"),
        (town(30, "x,48.47,8.1,0"), "'x'"),
        (f"id,x,y,depot\n{rows}a,3,90,\nb,-80,2,\n", "'a' and 'b'"),
    ):
        assert f"far from all others, check the coordinates: {names}" in imported(tmp_path, data).notes


def test_addresses_of_usual_cities_are_not_far(tmp_path: Path) -> None:
    """Uniform, normal, a town beside another one, many addresses at one place."""
    rng = np.random.default_rng(2)
    equal = np.vstack([np.zeros((9, 2)), [[1, 1]]])
    cities = [town(30, *town(20, lat=47.9).replace("n", "m").splitlines()[2:])]
    for xy in (rng.uniform(size=(3000, 2)), rng.normal(size=(3000, 2)), equal):
        rows = "".join(f"n{k},{x},{y},{int(k == 0)}\n" for k, (x, y) in enumerate(xy.tolist()))
        cities.append(f"id,x,y,depot\n{rows}")
    assert not any("far from" in note for data in cities for note in imported(tmp_path, data).notes)


def test_addresses_at_one_place_are_taken_and_counted(tmp_path: Path) -> None:
    """Two customers at one place are two nodes; a city at a single point has a frame."""
    made = imported(tmp_path, "id,x,y,depot\nd,5,5,1\na,6,7,0\nb,6,7,0\n")
    assert made.notes == ("1 row with the coordinates of another one",)
    assert imported(tmp_path, "id,x,y,depot\nd,5,5,1\na,5,5,0\n").city.scale > 0
    # UTM coordinates of addresses a few metres apart are inside the frame despite rounding
    rows = [f"n{k},{500_000_000 + k / 7:.6f},{300_000_000 + k / 3:.6f},{int(k == 0)}" for k in range(9)]
    assert imported(tmp_path, "\n".join(["id,x,y,depot", *rows])).city.customers == 8


def test_a_unit_scales_degrees_and_names_coordinates(tmp_path: Path) -> None:
    metres, kilometres = (imported(tmp_path, sound(), unit=unit).city for unit in ("m", "km"))
    np.testing.assert_allclose(kilometres.xy * 1000, metres.xy)
    assert kilometres.unit == "km"
    assert imported(tmp_path, "id,x,y,depot\nd,0,0,1\na,3,4,0\n", unit="ft").city.legs(np.array([0, 1])) == [
        5
    ]


def with_costs(tmp_path: Path, data: bytes, **options: Any) -> PlannedCity:
    (tmp_path / "costs").write_bytes(data)
    return imported(tmp_path, TRIANGLE, matrix=str(tmp_path / "costs"), **options)


def test_a_matrix_follows_its_addresses(tmp_path: Path) -> None:
    """Its rows are reordered with the depot; a square and pairs in any order give the same city."""
    square = with_costs(tmp_path, npy(COSTS)).city
    pairs = with_costs(tmp_path, parquet(PAIRS.sample(frac=1, random_state=1))).city
    assert square.city_id == pairs.city_id != imported(tmp_path, TRIANGLE).city.city_id
    assert square.matrix is not None
    assert square.matrix.tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]  # d, a, b
    one_way = COSTS.copy()
    one_way[0, 2] = 9
    asymmetric = with_costs(tmp_path, npy(one_way), unit="min").city
    assert (square.symmetric, asymmetric.symmetric, asymmetric.unit) == (True, False, "min")
    for route in ((1, 2), (2, 1)):  # in the direction of driving
        assert canonical(asymmetric, Solution((route,))).routes == (route,)


def spec_of(file: str | Path, name: str = "own", **options: Any) -> CitySpec:
    return CitySpec(name=name, source="imported", addresses=AddressFile(file=str(file), **options))


def test_a_city_is_imported_once(store: Store, tmp_path: Path) -> None:
    *_, last = CITY.read_text().splitlines()
    longer = tmp_path / "longer.csv"
    longer.write_text(CITY.read_text() + last.replace(last.split(",")[0], "C99999") + "\n")
    first = make_city(store, spec_of(CITY, demand=(2, 12), capacity=(40, 60)))
    before = everything(store)
    again = make_city(store, spec_of(CITY, demand=(2, 12), capacity=(40, 60)))
    by_name = make_city(store, CitySpec(name="own", source="imported"))
    assert first.city.city_id == again.city.city_id == by_name.city.city_id
    assert (by_name.city.demand, by_name.city.capacity) == ((2, 12), (40, 60))
    assert everything(store) == before
    for other, message in (
        (spec_of(MORE, depot="C00301"), "another city named 'own'"),
        (spec_of(longer), r"extend it \(mcvrp city extend own\)"),
        (spec_of(CITY), "other demand and capacity"),
        (CitySpec(name="own", customers=10), "another city named 'own'"),
    ):
        with pytest.raises(McvrpError, match=message):
            plan_city(store, other)
    with pytest.raises(McvrpError, match="run mcvrp city import FILE --name nowhere"):
        plan_city(store, CitySpec(name="nowhere", source="imported"))


def test_a_corrupt_city_is_created_again_as_its_error_says(store: Store) -> None:
    city_id = make_city(store, spec_of(CITY)).city.city_id
    store.put(city_path("own"), store.get(city_path("own"))[:-10])
    with pytest.raises(McvrpError, match=r"city\.parquet is not a readable city .*: delete its folder, and"):
        make_city(store, spec_of(CITY))
    store.delete(city_dir("own"))
    assert make_city(store, spec_of(CITY)).city.city_id == city_id


def test_a_city_that_extends_another_takes_what_was_made_for_it(store: Store, tmp_path: Path) -> None:
    parent = make_city(store, spec_of(CITY, demand=(2, 12), capacity=(40, 60))).city
    child = make_city(store, spec_of(MORE, "child", extends="own")).city
    more = tmp_path / "more.csv"
    more.write_text(f"{MORE.read_text()}X1,here,47.3,8.05,0\n")
    grandchild = make_city(store, spec_of(more, "grandchild", extends="child")).city
    assert grandchild.customers == CUSTOMERS + ADDED + 1
    np.testing.assert_array_equal(grandchild.xy[: CUSTOMERS + 1], parent.xy)
    assert grandchild.ancestors == (parent.city_id, child.city_id)
    assert {city.classes for city in (parent, child, grandchild)} == {CUSTOMERS + 51}
    assert (grandchild.demand, grandchild.capacity) == ((2, 12), (40, 60))
    assert grandchild.accepts(parent.city_id)
    assert not parent.accepts(child.city_id)
    nodes = np.arange(CUSTOMERS + 1)
    np.testing.assert_array_equal(grandchild.costs(nodes), parent.costs(nodes))


def test_the_matrix_of_an_extended_city_holds_its_parents(store: Store, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(TRIANGLE)
    (tmp_path / "costs").write_bytes(npy(COSTS))
    parent = make_city(store, spec_of(tmp_path / "own.csv", matrix=str(tmp_path / "costs"))).city
    (tmp_path / "more.csv").write_text("id,x,y\ne,1,1\n")
    assert parent.matrix is not None
    costs = np.pad(parent.matrix, (0, 1), constant_values=7)
    costs[3, 3] = 0
    (tmp_path / "costs").write_bytes(npy(costs))
    more = spec_of(tmp_path / "more.csv", "child", extends="own", matrix=str(tmp_path / "costs"))
    child = plan_city(store, more).city
    assert child.accepts(parent.city_id)
    with pytest.raises(McvrpError, match="city 'own' has a cost matrix: give one"):
        plan_city(store, spec_of(tmp_path / "more.csv", "child", extends="own"))
    costs[1, 2] += 1
    (tmp_path / "costs").write_bytes(npy(costs))
    with pytest.raises(McvrpError, match="the cost from 'a' to 'b' was 2, is 3"):
        plan_city(store, more)


def test_a_difference_of_rounding_is_no_move(store: Store, tmp_path: Path) -> None:
    """A centimetre, also where costs in kilometres are a matrix and coordinates are metres."""
    costs = np.ones((5, 5)) - np.eye(5)
    (tmp_path / "own.csv").write_text(sound())
    (tmp_path / "own.npy").write_bytes(npy(costs[:4, :4]))
    (tmp_path / "more.csv").write_text("id,lat,lon\na,45.7700001,4.85\ne,45.755,4.845\n")
    (tmp_path / "more.npy").write_bytes(npy(costs))
    make_city(store, spec_of(tmp_path / "own.csv", unit="km", matrix=str(tmp_path / "own.npy")))
    more = spec_of(tmp_path / "more.csv", "child", extends="own", matrix=str(tmp_path / "more.npy"))
    assert plan_city(store, more).city.customers == 4
    (tmp_path / "more.csv").write_text("id,lat,lon\na,45.7701,4.85\ne,45.755,4.845\n")
    with pytest.raises(McvrpError, match=r"row 2: 'a' has moved by 11\.12 m: an"):
        plan_city(store, more)


def test_further_columns_are_kept_and_may_be_renewed(store: Store, tmp_path: Path) -> None:
    """In the file's words, beside codes with a name of their own; neither they nor that change the city."""
    file, columns = tmp_path / "own.csv", {"id": "Code client", "demand": "Colis"}
    file.write_text(NAMED)
    made = make_city(store, spec_of(file, columns=columns))
    assert made.city.city_id == GOLDEN
    back = stored_city(store, "own")
    assert back.addresses.ids == ("d", "a", "b", "c")
    assert back.addresses.further == {
        "Name": ("Depot", "Anna", "", ""),
        "Customer": ("", 'Shop "A"', "=1+1", ""),
    }
    assert back.addresses.columns == columns
    imported(tmp_path, sound(), "plain.csv")
    before = everything(store)
    assert make_city(store, spec_of(tmp_path / "plain.csv")).exists  # has none
    assert make_city(store, spec_of(file, columns=columns)).exists
    assert everything(store) == before
    file.write_text(NAMED.replace("Anna", "Berta"))
    assert "were updated" in make_city(store, spec_of(file, columns=columns)).notes[0]
    assert stored_city(store, "own").addresses.further["Name"] == ("Depot", "Berta", "", "")


def test_the_order_of_dates_is_kept_like_the_names_of_columns(store: Store, tmp_path: Path) -> None:
    """It may be declared later, and an extension inherits it."""
    file, more = tmp_path / "own.csv", tmp_path / "more.csv"
    file.write_text(NAMED)
    more.write_text("Code client,lat,lon\ne,45.755,4.845\n")
    columns = {"id": "Code client"}
    make_city(store, spec_of(file, columns=columns))
    assert stored_city(store, "own").addresses.dates is None
    assert not make_city(store, spec_of(file, columns=columns, dates="day-first")).exists
    assert make_city(store, spec_of(file, columns=columns)).exists
    make_city(store, spec_of(more, "child", extends="own"))
    make_city(store, spec_of(more, "other", extends="own", dates="month-first"))
    orders = [stored_city(store, name).addresses.dates for name in ("own", "child", "other")]
    assert orders == ["day-first", "day-first", "month-first"]
    assert "day-first" in store.get(city_readme("own")).decode()


def test_an_extension_has_the_further_columns_of_both(store: Store, tmp_path: Path) -> None:
    """A column's name in its file is not that of the city's orders, which the parent has."""
    file, more = tmp_path / "own.csv", tmp_path / "more.csv"
    file.write_text(NAMED)
    more.write_text("No,Colis,Phone,NAME,lat,lon\ne,,+33 6,Eve,45.755,4.845\na,,,,45.77,4.85\n")
    make_city(store, spec_of(file, columns={"id": "Code client"}))
    make_city(store, spec_of(more, "child", extends="own", columns={"id": "No", "demand": "Colis"}))
    child = stored_city(store, "child").addresses
    assert child.ids == ("d", "a", "b", "c", "e")
    assert child.further["Name"] == ("Depot", "Anna", "", "", "Eve")
    assert child.further["Phone"] == ("", "", "", "", "+33 6")
    assert child.further.keys() == {"Name", "Customer", "Phone"}
    assert child.columns == {"id": "Code client", "demand": "Colis"}
