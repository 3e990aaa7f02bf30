"""Tests of cities that people bring: what they mean by it, and what is wrong with it, row by row."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pyproj import Geod

from model.errors import McvrpError
from model.problem import DEPOT, City, Solution, canonical
from storage.store import Store
from tasks.address_table import address_table
from tasks.city import AddressFile, CitySpec, make_city, planned_city
from tasks.city_import import Imported, import_city
from tasks.projection import centred, to_degrees, to_metres
from tasks.tabular import read_tabular
from tests.address_files import ADDED, CITY, CUSTOMERS, MORE

HEAD = "id,lat,lon,depot"
GOLDEN = "a0a6e917928e355f"  # the id of the next
SOUND = (
    HEAD,
    "d,45.76,4.84,1",
    "a,45.77,4.85,0",
    "b,45.75,4.86,",
    "c,45.74,4.83,no",
)


def sound(*changes: tuple[int, str]) -> str:
    """Return the sound file with some rows, counted as in the file, replaced or added."""
    rows = dict(enumerate(SOUND, start=1)) | dict(changes)
    return "\n".join(rows[row] for row in sorted(rows)) + "\n"


def imported(tmp_path: Path, data: str | bytes, name: str = "own.csv", **options: Any) -> Imported:
    """Return the city of a file with ``data``."""
    file = tmp_path / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return import_city(Store.open(tmp_path / "store"), AddressFile(file=str(file), **options))


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


PLANE = pd.DataFrame({"id": ["d", "a", "b"], "x": [0.0, 3.0, 0.0], "y": [0.0, 4.0, 1.0], "depot": [1, 0, 0]})


@pytest.mark.parametrize(
    "data",
    [
        sound(),
        "﻿" + sound(),  # as Excel writes UTF-8
        sound().replace(",", ";"),
        sound().replace(",", ";").replace(".", ","),  # decimal commas
        sound().replace(",", "\t"),
        sound().replace("\n", "\r\n"),
        sound().encode("utf-16"),
        sound((1, "ID, Latitude ,LON,Depot")),
        sound((3, " a , 45.77 , 4.85 , false ")),
        sound() + "\n,,,\n",  # empty rows
        sound().replace("\n", ",\n"),  # a separator behind each row
        parquet(pd.read_csv(io.StringIO(sound())).fillna("")),
        parquet(pd.read_csv(io.StringIO(sound().replace("no", "0")))),  # numbers where text may be
    ],
    ids=[
        *("plain", "bom", "semicolons", "commas", "tabs", "crlf", "utf16"),
        *("names", "spaces", "empty", "trailing", "parquet", "numbers"),
    ],
)
def test_dialects_of_one_file_are_one_city(tmp_path: Path, data: str | bytes) -> None:
    """Encoding, separator, decimal sign, spaces and format change nothing: the id is a fixed string."""
    made = imported(tmp_path, data)
    assert made.city.city_id == GOLDEN
    assert made.addresses.ids == ("d", "a", "b", "c")
    assert made.notes == ()


def test_latin_1_is_read_and_said_so(tmp_path: Path) -> None:
    """A file that is no UTF-8 is taken for Western European, in a sentence."""
    made = imported(tmp_path, sound((3, "Café,45.77,4.85,0")).encode("latin-1"))
    assert made.addresses.ids[1] == "Café"
    assert "not UTF-8" in made.notes[0]


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ("", {}, ["own.csv is empty"]),
        ("\n \n", {}, ["own.csv is empty"]),
        (HEAD + "\n", {}, ["no rows", "id"]),
        (sound((1, "name,lat,lon,depot")), {}, ["no column id", "name, lat, lon"]),
        (sound((1, "id,lat,north,depot")), {}, ["no columns lat and lon, or x and y"]),
        (sound((1, "id,lat,lat,depot")), {}, ["two columns named lat"]),
        ("id,lat,latitude,lon,depot\na,1,1,1,1\n", {}, ["columns lat and latitude mean the same"]),
        ("id,lat,lon,x,y,depot\na,1,1,1,1,1\n", {}, ["lat, lon and x, y"]),
        (sound((3, ",45.77,4.85,0")), {}, ["row 3: id is missing"]),
        (sound((5, "a,45.74,4.83,0")), {}, ["row 5: id 'a' is that of row 3 already"]),
        (sound((3, "a,,4.85,0")), {}, ["row 3: lat is missing"]),
        (sound((3, "a,45.77,nan,0")), {}, ["row 3: lon is 'nan', no number"]),
        (sound((3, "a,45.77,east,0")), {}, ["row 3: lon is 'east', no number"]),
        (sound((3, "a,inf,4.85,0")), {}, ["row 3: lat is 'inf'"]),
        (sound((3, "a,95.0,4.85,0")), {}, ["row 3: lat 95 is not within -90 to 90"]),
        (sound((3, "a,45.77,190,0")), {}, ["row 3: lon 190 is not within -180 to 180"]),
        (sound((3, "a,4.85,45.77,0")), {}, ["row 3: (4.85, 45.77)", "lat and lon look swapped"]),
        (sound((3, "a,0,0,0")), {}, ["row 3: (0, 0)", "geocoders"]),
        (sound((3, "a,52.5,13.4,0")), {}, ["row 3: (52.5, 13.4)", "km from the middle"]),
        ("id,lat,lon,depot\nd,118.2,34.1,1\na,118.3,34.0,0\n", {}, ["lat and lon look swapped"]),
        (sound((2, "d,45.76,4.84,0")), {}, ["no row is the depot", "column depot"]),
        ("id,x,y\na,1,1\n", {}, ["no row is the depot", "--depot ID"]),
        (sound((3, "a,45.77,4.85,1")), {}, ["rows 2 and 3 are depots"]),
        (sound((3, "a,45.77,4.85,maybe")), {}, ["row 3: depot is 'maybe'"]),
        (sound(), {"depot": "z"}, ["the depot 'z' is no id"]),
        ("id,x,y,depot\nd,1,1,1\n", {}, ["a depot and no customers"]),
        ("id,x,y,depot\nd,1,1,1\na,1e12,1,0\n", {}, ["row 3", "beyond 1e+09"]),
        ("id;x;y;depot\nd;1,5;1;1\na;2.5;1;0\n", {}, ["decimal commas", "row 2", "row 3"]),
        (sound((3, "a,45,77,4,85,0")), {}, ["row 3", "column without a name"]),
        (sound().replace("a", "a\0"), {}, ["binary"]),
        (b"PK\x03\x04rest", {}, ["spreadsheet", "CSV"]),
        (parquet(PLANE)[:-20], {}, ["no whole Parquet file"]),
        (parquet(PLANE.assign(x=[True, False, True])), {}, ["column x holds true and false"]),
        (parquet(PLANE.assign(x=[1.0, np.nan, np.inf])), {}, ["row 2: x is missing", "row 3: x is inf"]),
        (sound(), {"unit": "furlong"}, ["unit 'furlong'", "m, km or mi"]),
        (
            "id,lat,lon,depot\nd,45,4,1\na,45,2.0,0\nb,45,6.0,0\n",
            {},
            ["stretch over", "300 km wide"],
        ),
        (
            sound((3, ",x,4.85,0"), (4, "d,45.7,500,2")),
            {},
            ["row 3: id is missing; row 3: lat is 'x'", "row 4: id 'd'", "row 4: lon 500", "row 4: depot"],
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_row(
    tmp_path: Path, data: str | bytes, options: dict[str, Any], said: list[str]
) -> None:
    """One sentence names every row, what was found and what was expected; nothing is written."""
    store = Store.open(tmp_path / "store")
    file = tmp_path / "own.csv"
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    spec = CitySpec(name="own", source="imported", addresses=AddressFile(file=str(file), **options))
    with pytest.raises(McvrpError) as caught:
        make_city(store, spec)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert all(part in sentence for part in said), sentence
    assert store.list("") == []


def test_of_many_faults_twenty_are_told_and_the_others_counted(tmp_path: Path) -> None:
    """A file that is wrong throughout gets a sentence that can be read."""
    rows = [f"a{k},x,4.8,0" for k in range(100)]
    with pytest.raises(McvrpError) as caught:
        imported(tmp_path, "\n".join([HEAD, "d,45.76,4.84,1", *rows]))
    assert str(caught.value).count("no number") == 20
    assert str(caught.value).endswith("and 80 more")


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
    """The spec is checked before a file is read."""
    with pytest.raises(ValidationError):
        AddressFile(file="any.csv", **fields)


@given(
    st.permutations(range(8)),
    st.integers(0, 7),
    st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)), min_size=8, max_size=8),
)
@settings(max_examples=30)
def test_an_import_is_invertible(order: list[int], depot: int, places: list[tuple[int, int]]) -> None:
    """Whatever the order of the rows: each id stays with its place, and the depot is found."""
    xy = np.array(places, dtype=np.float64) / 1000
    rows = [f"n{k},{xy[k, 0]!r},{xy[k, 1]!r}".replace("np.float64(", "").replace(")", "") for k in order]
    table = address_table(read_tabular("f", "\n".join(["id,x,y", *rows]).encode()), f"n{depot}")
    assert table.ids == tuple(f"n{k}" for k in order)
    np.testing.assert_array_equal(table.places, xy[order])
    assert table.depot == order.index(depot)


def test_nodes_follow_the_file_with_the_depot_in_front(tmp_path: Path) -> None:
    """The example city: its depot stands in the middle of the file and is node 0, all ids lead back."""
    store = Store.open(tmp_path)
    made = import_city(store, AddressFile(file=str(CITY)))
    frame = pd.read_csv(CITY)
    assert made.city.customers == CUSTOMERS
    assert made.addresses.ids[DEPOT] == "DEPOT"
    assert list(made.addresses.ids[1:]) == [name for name in frame["id"] if name != "DEPOT"]
    nodes = made.addresses.nodes(frame["id"])
    assert made.addresses.names(nodes) == frame["id"].tolist()
    assert made.addresses.lonlat is not None
    np.testing.assert_array_equal(made.addresses.lonlat[nodes], frame[["lon", "lat"]].to_numpy())
    assert made.addresses.nodes(["nobody"]).tolist() == [-1]
    assert made.city.spare == 50
    unit = made.city.unit_xy
    assert unit.min() >= 0
    assert unit.max() <= 1
    assert np.ptp(unit, axis=0).max() == pytest.approx(1)


@given(
    st.floats(-179.9, 179.9),
    st.floats(-75, 75),
    st.lists(st.tuples(st.floats(-120, 120), st.floats(-120, 120)), min_size=5, max_size=5),
)
@settings(max_examples=40)
def test_the_projection_keeps_lengths_and_can_be_undone(
    lon: float, lat: float, offsets: list[tuple[float, float]]
) -> None:
    """Straight lines are the ellipsoid's within 0.1 %, on the antimeridian too; the inverse leads back."""
    east, north = np.array(offsets).T
    places = np.column_stack(
        [
            (lon + east / (111.2 * np.cos(np.radians(lat))) + 180) % 360 - 180,
            np.clip(lat + north / 111.2, -89, 89),
        ]
    )
    projection = centred(places)
    xy = to_metres(projection, places)
    back = to_degrees(projection, xy)
    assert np.abs((back - places + 180) % 360 - 180).max() < 1e-6
    a, b = np.triu_indices(len(places), 1)
    _, _, truth = Geod(ellps="WGS84").inv(*places[a].T, *places[b].T)
    np.testing.assert_allclose(np.hypot(*(xy[a] - xy[b]).T), truth, rtol=1e-3, atol=0.01)


def test_addresses_at_one_place_are_taken_and_counted(tmp_path: Path) -> None:
    """Two customers in one house are two nodes; a city at a single point still has a frame."""
    made = imported(tmp_path, "id,x,y,depot\nd,5,5,1\na,6,7,0\nb,6,7,0\n")
    assert made.notes == ("1 addresses share their place with another",)
    assert imported(tmp_path, "id,x,y,depot\nd,5,5,1\na,5,5,0\n").city.scale > 0


def test_large_coordinates_of_a_small_yard_have_a_frame(tmp_path: Path) -> None:
    """UTM coordinates of addresses a few metres apart lie in the frame in spite of rounding."""
    rows = [f"n{k},{500_000_000 + k / 7:.6f},{300_000_000 + k / 3:.6f},{int(k == 0)}" for k in range(9)]
    assert imported(tmp_path, "\n".join(["id,x,y,depot", *rows])).city.customers == 8


def test_a_unit_scales_degrees_and_names_coordinates(tmp_path: Path) -> None:
    """Kilometres are metres over 1000; of x and y the unit is only a name."""
    metres, kilometres = (imported(tmp_path, sound(), unit=unit).city for unit in ("m", "km"))
    np.testing.assert_allclose(kilometres.xy * 1000, metres.xy)
    assert kilometres.unit == "km"
    assert imported(tmp_path, "id,x,y,depot\nd,0,0,1\na,3,4,0\n", unit="ft").city.legs(np.array([0, 1])) == [
        5
    ]


def test_ranges_come_from_past_orders_where_none_are_given(tmp_path: Path) -> None:
    """The middle 99 % of the past; a mistyped order does not widen a range, what is given wins."""
    past = tmp_path / "past.csv"
    past.write_text("customer;demand;capacity\n" + "a;3;40\n" * 500 + "a;12;60\n" * 499 + "a;9999;60\n")
    made = imported(tmp_path, sound(), history=str(past))
    assert (made.city.demand, made.city.capacity) == ((3, 12), (40, 60))
    assert made.notes == (
        "from 1,000 past orders: demand 3 to 12 of 3 to 9999, capacity 40 to 60 of 40 to 60",
    )
    assert imported(tmp_path, sound(), history=str(past), demand=(1, 2)).city.demand == (1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("customer,stop\na,1\n", ["no column demand and none capacity"]),
        ("demand\n0\n2.5\nmany\n70000\n", ["row 2: demand is 0", "row 3", "row 4", "row 5: demand is 70000"]),
        ("demand,capacity\n50,40\n", ["a vehicle may hold 40, an order may be 50"]),
    ],
)
def test_past_orders_that_are_none_are_told_by_row(tmp_path: Path, text: str, said: list[str]) -> None:
    """A demand is a whole number from 1 up, and no vehicle may be smaller than an order."""
    (tmp_path / "past.csv").write_text(text)
    with pytest.raises(McvrpError) as caught:
        imported(tmp_path, sound(), history=str(tmp_path / "past.csv"))
    assert all(part in str(caught.value) for part in said), caught.value


# Costs ---------------------------------------------------------------------------------------

COSTS = np.array([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]])  # in the file's order: a, d, b
FILE = "id,x,y,depot\na,3,4,0\nd,0,0,1\nb,0,1,0\n"
PAIRS = pd.DataFrame(
    [(f, t, COSTS[i, j]) for i, f in enumerate("adb") for j, t in enumerate("adb") if i != j],
    columns=["from", "to", "cost"],
)


def with_costs(tmp_path: Path, data: bytes, **options: Any) -> Imported:
    """Return the city of three addresses whose matrix is in a file with ``data``."""
    (tmp_path / "costs").write_bytes(data)
    return imported(tmp_path, FILE, matrix=str(tmp_path / "costs"), **options)


def test_a_matrix_follows_its_addresses(tmp_path: Path) -> None:
    """The depot's row moves with it; a square and pairs in any order are the same city."""
    square = with_costs(tmp_path, npy(COSTS)).city
    pairs = with_costs(tmp_path, parquet(PAIRS.sample(frac=1, random_state=1))).city
    assert square.city_id == pairs.city_id != imported(tmp_path, FILE).city.city_id
    assert square.matrix is not None
    assert square.matrix.tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]  # d, a, b
    assert square.symmetric


def test_routes_keep_their_direction_where_costs_have_one(tmp_path: Path) -> None:
    """One cost that differs by direction makes a city whose routes are stored as they are driven."""
    one_way = COSTS.copy()
    one_way[0, 2] = 9
    city = with_costs(tmp_path, npy(one_way), unit="min").city
    assert not city.symmetric
    assert city.unit == "min"
    for route in ((1, 2), (2, 1)):
        assert canonical(city, Solution((route,))).routes == (route,)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (npy(COSTS[:2]), ["2 x 3", "3 x 3"]),
        (npy(COSTS - 2), ["the cost from 'a' to 'a' is -2: it has to be 0", "'a' to 'd' is -1", "from 0 up"]),
        (npy(np.where(COSTS == 3, np.nan, COSTS)), ["'d' to 'b' is nan", "'b' to 'd' is nan"]),
        (npy(COSTS.astype(object)), ["no array of numbers"]),
        (npy(COSTS.astype(str)), ["not numbers"]),
        (npy(COSTS)[:40], ["no array of numbers"]),
        (parquet(PAIRS[1:]), ["the cost from 'a' to 'd' is missing"]),
        (parquet(pd.concat([PAIRS, PAIRS[:1]])), ["row 7: 'a' to 'd' is there already"]),
        (parquet(PAIRS.replace("b", "z")), ["to 'z' is no address", "from 'z' is no address"]),
        (parquet(PAIRS.drop(columns="cost")), ["no column cost"]),
        (b"from,to,cost\na,d,\n", ["row 2: cost is missing"]),
    ],
)
def test_what_is_wrong_with_costs_is_told_by_pair(tmp_path: Path, data: bytes, said: list[str]) -> None:
    """Every missing, doubled or impossible cost is named; no pickle is read."""
    with pytest.raises(McvrpError) as caught:
        with_costs(tmp_path, data)
    assert all(part in str(caught.value) for part in said), caught.value


# The stage -----------------------------------------------------------------------------------


def spec_of(file: str | Path, name: str = "own", **options: Any) -> CitySpec:
    return CitySpec(name=name, source="imported", addresses=AddressFile(file=str(file), **options))


def test_a_city_is_imported_once(tmp_path: Path) -> None:
    """Asked again, or by its name alone, it is the one that is there; another one is refused."""
    store = Store.open(tmp_path)
    first = make_city(store, spec_of(CITY, demand=(2, 12), capacity=(40, 60)))
    before = {path: store.get(path) for path in store.list("")}
    again = make_city(store, spec_of(CITY, demand=(2, 12), capacity=(40, 60)))
    by_name = make_city(store, CitySpec(name="own", source="imported"))
    assert first.city.city_id == again.city.city_id == by_name.city.city_id
    assert (by_name.city.demand, by_name.city.capacity) == ((2, 12), (40, 60))
    assert {path: store.get(path) for path in store.list("")} == before
    for other, said in (
        (spec_of(MORE, depot="C00301"), "another city named 'own'"),
        (spec_of(CITY), "other demand and capacity"),
        (CitySpec(name="own", customers=10), "city.source = imported"),
    ):
        with pytest.raises(McvrpError, match=said):
            planned_city(store, other)
    with pytest.raises(McvrpError, match="run mcvrp city import FILE --name nowhere"):
        planned_city(store, CitySpec(name="nowhere", source="imported"))


def test_a_file_may_lie_in_the_store(tmp_path: Path) -> None:
    """A deployment reads what was uploaded; a path out of the store is refused."""
    store = Store.open(tmp_path)
    store.put("uploads/a.csv", CITY.read_bytes())
    assert planned_city(store, spec_of("store:uploads/a.csv")).customers == CUSTOMERS
    for place, said in (("store:../a.csv", "leaves the store"), ("nothing.csv", "no file nothing.csv")):
        with pytest.raises(McvrpError, match=said):
            planned_city(store, spec_of(place))


# Extending -----------------------------------------------------------------------------------


def test_a_city_that_extends_another_takes_what_was_made_for_it(tmp_path: Path) -> None:
    """Old nodes keep number, place and classes; the chain of parents comes from the city's own content."""
    store = Store.open(tmp_path)
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
    assert grandchild.takes(parent.city_id)
    assert not parent.takes(child.city_id)
    nodes = np.arange(CUSTOMERS + 1)
    np.testing.assert_array_equal(grandchild.costs(nodes), parent.costs(nodes))


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ("id,lat,lon\n", {}, ["no rows"]),
        ("id,lat,lon\na,45.77,4.85\n", {}, ["no address that city 'own' has not already"]),
        ("id,lat,lon\na,45.78,4.85\n", {}, ["row 2: 'a' was", "keeps its place"]),
        ("id,lat,lon\ne,45.9,4.85\n", {}, ["row 2: 'e' lies", "21 % is the most"]),
        ("id,lat,lon,depot\ne,45.76,4.85,1\n", {}, ["row 2: the depot of city 'own' is 'd'"]),
        ("id,x,y\ne,45.76,4.85\n", {}, ["has x and y", "lat and lon"]),
        ("id,lat,lon\ne,45.76,4.85\nf,45.76,4.85\n", {}, ["adds 2 addresses", "has 1 spare classes"]),
        ("id,lat,lon\ne,45.76,4.85\n", {"matrix": "m.npy"}, ["straight lines"]),
    ],
)
def test_what_cannot_be_added_is_told_by_row(
    tmp_path: Path, rows: str, options: dict[str, Any], said: list[str]
) -> None:
    """A new address needs a class and a place within reach; an old one keeps its own."""
    store = Store.open(tmp_path / "store")
    (tmp_path / "own.csv").write_text(sound())
    (tmp_path / "more.csv").write_text(rows)
    make_city(store, spec_of(tmp_path / "own.csv", spare=1))
    before = store.list("")
    with pytest.raises(McvrpError) as caught:
        make_city(store, spec_of(tmp_path / "more.csv", "child", extends="own", **options))
    assert all(part in str(caught.value) for part in said), caught.value
    assert store.list("") == before


def test_the_matrix_of_an_extended_city_holds_its_parents(tmp_path: Path) -> None:
    """In the parent's order of nodes, the new ones behind; a cost that changed is refused by name."""
    store = Store.open(tmp_path / "store")
    (tmp_path / "own.csv").write_text(FILE)
    (tmp_path / "costs").write_bytes(npy(COSTS))
    parent = make_city(store, spec_of(tmp_path / "own.csv", matrix=str(tmp_path / "costs"))).city
    (tmp_path / "more.csv").write_text("id,x,y\ne,1,1\n")
    assert parent.matrix is not None
    costs = np.pad(parent.matrix, (0, 1), constant_values=7)
    costs[3, 3] = 0
    (tmp_path / "costs").write_bytes(npy(costs))
    more = spec_of(tmp_path / "more.csv", "child", extends="own", matrix=str(tmp_path / "costs"))
    child = planned_city(store, more)
    assert child.takes(parent.city_id)
    costs[1, 2] += 1
    (tmp_path / "costs").write_bytes(npy(costs))
    with pytest.raises(McvrpError, match="the cost from 'a' to 'b' was 2, is 3"):
        planned_city(store, more)


def test_a_synthetic_city_is_as_before() -> None:
    """Names and ids of synthetic cities are what they were before there were others."""
    assert City.uniform(60, 3).city_id == "5cd040c42fcc9edf"
    assert City.uniform(60, 3).classes == 61
    assert CitySpec(name="c", customers=5).title == "c, 5 customers"
