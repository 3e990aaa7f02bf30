"""Malformed input files (addresses, matrices, orders) with the expected parts of their error messages."""

from __future__ import annotations

import datetime
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store

Data = str | bytes
TOWN = City.uniform(12, seed=1)
NAMES = Addresses(("Depot", *(f"C{k}" for k in range(1, 13))))
TODAY = datetime.date(2026, 3, 1)
HEAD = "id,lat,lon,depot"
SOUND = (HEAD, "d,45.76,4.84,1", "a,45.77,4.85,0", "b,45.75,4.86,", "c,45.74,4.83,no")
PLANE = pd.DataFrame({"id": ["d", "a", "b"], "x": [0.0, 3.0, 0.0], "y": [0.0, 4.0, 1.0], "depot": [1, 0, 0]})
COSTS = np.array([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]])  # in the order of the next: a, d, b
TRIANGLE = "id,x,y,depot\na,3,4,0\nd,0,0,1\nb,0,1,0\n"
PAIRS = pd.DataFrame(
    [(f, t, COSTS[i, j]) for i, f in enumerate("adb") for j, t in enumerate("adb") if i != j],
    columns=["from", "to", "cost"],
)


def sound(*changes: tuple[int, str]) -> str:
    """Return a sound file of addresses with some rows, counted as in the file, replaced or added."""
    rows = dict(enumerate(SOUND, start=1)) | dict(changes)
    return "\n".join(rows[row] for row in sorted(rows)) + "\n"


def as_bytes(data: Data) -> bytes:
    return data.encode() if isinstance(data, str) else data


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    """Return ``array`` in NumPy's format, pickled where that is the only way."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@dataclass(frozen=True)
class Place:
    """A store, and a folder beside it for what people bring."""

    folder: Path

    @property
    def store(self) -> Store:
        return Store.open(self.folder / "store")

    def file(self, data: Data, name: str = "table") -> str:
        (self.folder / name).write_bytes(as_bytes(data))
        return str(self.folder / name)


@dataclass(frozen=True)
class Case:
    """One malformed file, the options beside it, and the parts of its error message."""

    name: str
    data: Data
    parts: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


def case(name: str, data: Data, *parts: str, **options: Any) -> Case:
    return Case(name, data, parts, options)


ADDRESSES = (
    case("no id", sound((1, "name,lat,lon,depot")), "no column id", "name, lat, lon"),
    case("no lon", sound((1, "id,lat,north,depot")), "no column lat and lon, or x and y", "north"),
    case("two words for lat", "id,lat,latitude,lon,depot\na,1,1,1,1\n", "lat and latitude mean the same"),
    case("degrees and metres", "id,lat,lon,x,y,depot\na,1,1,1,1,1\n", "both lat, lon and x, y"),
    case("an id twice", sound((5, "a,45.74,4.83,0")), "row 5: id 'a' is a duplicate of row 3"),
    case("an id that cannot be shown", sound((3, "a\x07,45.7,4.8,0")), "row 3: id", "not printable"),
    case("an id of 200 letters", sound((3, f"{'a' * 200},45.7,4.8,0")), "row 3: id", "longer than 100"),
    case("lat out of range", sound((3, "a,95.0,4.85,0")), "row 3: lat is 95, not within -90 to 90"),
    case("lat and lon swapped", sound((3, "a,4.85,45.77,0")), "row 3: (4.85, 45.77)", "km away"),
    case(
        "all swapped",
        "id,lat,lon,depot\nd,118.2,34.1,1\na,118.3,34.0,0\n",
        "row 2: lat is 118.2, not within -90 to 90",
    ),
    case("a geocoder's zero", sound((3, "a,0,0,0")), "row 3: (0, 0)", "km away"),
    case("another country", sound((3, "a,52.5,13.4,0")), "row 3: (52.5, 13.4)", "km from the center"),
    case("no depot marked", sound((2, "d,45.76,4.84,0")), "no row is the depot", "--columns depot="),
    case("two depots", sound((3, "a,45.77,4.85,1")), "rows 2 and 3 are depots"),
    case("a depot of others", sound(), "column depot marks 'd'", "--depot is 'a'", depot="a"),
    case("a depot that may be", sound((2, "d,45.76,4.84,maybe")), "own.csv: row 2: depot is 'maybe'"),
    case("a depot that is not there", sound(), "depot 'z' is not an id", depot="z"),
    case("a depot alone", "id,x,y,depot\nd,1,1,1\n", "a depot and no customers"),
    case("beyond all maps", "id,x,y,depot\nd,1,1,1\na,1e12,1,0\n", "row 3", "beyond 1e+09"),
    case("true and false", parquet(PLANE.assign(x=[True, False, True])), "row 1: x is 'True', not a number"),
    case("no numbers", parquet(PLANE.assign(x=[1.0, np.nan, np.inf])), "row 2: x is missing", "row 3"),
    case("a unit of another age", sound(), "unit 'furlong'", "m, km or mi", unit="furlong"),
    case(
        "five faults",
        sound((3, ",x,4.85,maybe"), (4, "d,45.7,500,2")),
        *("row 3: id is missing; row 3: lat is 'x'", "row 3: depot is 'maybe'"),
        *("row 4: id 'd'", "row 4: lon is 500"),
    ),
)

MORE_ADDRESSES = (  # for a city of SOUND with one class to spare
    case("none that is new", "id,lat,lon\na,45.77,4.85\n", "no address that is new to city 'own'"),
    case("one that moved", "id,lat,lon\na,45.78,4.85\n", "row 2: 'a' has moved by", "keeps its place"),
    case("one too far", "id,lat,lon\ne,45.9,4.85\n", "row 2: 'e' is outside", "limit: 21 %"),
    case("another depot", "id,lat,lon,depot\ne,45.76,4.85,1\n", "row 2: the depot of city 'own' is 'd'"),
    case("metres beside degrees", "id,x,y\ne,45.76,4.85\n", "has x and y", "lat and lon"),
    case("more than fit", "id,lat,lon\ne,45.76,4.85\nf,45.76,4.85\n", "adds 2 addresses", "1 spare output"),
    case("with costs", "id,lat,lon\ne,45.76,4.85\n", "straight-line costs", matrix="m.npy"),
)

MATRICES = (  # for TRIANGLE
    case("two rows of three", npy(COSTS[:2]), "2 x 3", "3 x 3"),
    case("negative", npy(COSTS - 2), "'a' to 'a' is -2, not 0", "'a' to 'd' is -1", "from 0 to"),
    case("NaN", npy(np.where(COSTS == 3, np.nan, COSTS)), "'d' to 'b' is nan", "'b' to 'd' is nan"),
    case("pickled", npy(COSTS.astype(object)), "not a numeric array"),
    case("text", npy(COSTS.astype(str)), "not numbers"),
    case("a pair missing", parquet(PAIRS[1:]), "the cost from 'a' to 'd' is missing"),
    case("a pair twice", parquet(pd.concat([PAIRS, PAIRS[:1]])), "row 7: 'a' to 'd' is a duplicate"),
    case(
        "a strange pair", parquet(PAIRS.replace("b", "z")), "to 'z' is not an address", "from 'z' is not an"
    ),
    case("no costs", parquet(PAIRS.drop(columns="cost")), "no column cost (columns: from and to)"),
    case("costs of 0", npy(0 * COSTS), "costs of 0 only"),
    case("a cost missing", b"from,to,cost\na,d,\n", "row 2: cost is missing"),
)

ORDERS = (  # for customers C1 to C12, whose vehicles hold 20
    case("no demand", "customer,amount\nC1,3\n", "no column demand", "amount"),
    case("no customer", "name,demand\nC1,3\n", "no column customer (or id)", "name"),
    case("zero", "customer,demand\nC1,0\n", "row 2: demand is '0', not a whole number from 1"),
    case(
        "huge", "customer,demand\nC1,99999999999999999999\n", "row 2", "not a whole number from 1 to 65,535"
    ),
    case("the depot", "customer,demand\nDepot,4\n", "row 2: 'Depot' is the depot"),
    case("many", "customer,demand\nX9,2.5\nC1,\n\n,1\nC2,x\n", "'X9'", "2.5", "row 3", "row 5", "row 6"),
    case("too much", "customer,demand\nC1,12\nC1,9\n", "row 2: customer 'C1' has a demand of 21 in 2 orders"),
    case("thirty faults", "customer,demand\n" + "X,1\n" * 30, "row 2:", "24 more"),
    case(
        "all in tenths",
        "customer;demand\nC1;52,5\nC2;3,5\nC3;1,5\n",
        "row 2: demand is '52,5', not a whole number from 1 to 65,535",
    ),
    case("two capacities", "customer,demand,capacity\nC1,1,20\nC2,1,30\n", "20 in row 2", "30 in row 3"),
    case("another capacity", "customer,demand,capacity\nC1,1,30\n", "20 as an option and 30"),
    case("lots of capacity", "customer,demand,capacity\nC1,1,lots\n", "row 2: capacity is 'lots'"),
    case("a time window", "customer,demand,TW Start\nC1,1,8:00\n", "TW Start of day.csv asks for a time"),
)

COLUMNS = (  # of the same customers, on a day with a shift and customers to leave out
    case("a word", "customer,demand,service\nC1,1,long\n", "row 2: service is 'long', not a number"),
    case("of a year", "customer,demand,service\nC1,1,\nC2,1,3e7\n", "row 3: service 30000000 is not 0"),
    case("twice", "customer,demand,service,service time\nC1,1,2,3\n", "service and service time mean the"),
    case("infinite", "customer,demand,priority\nC1,1,inf\n", "row 2: priority is 'inf'"),
    case("no customer with room", "customer,demand\nC1,21\nC2,22\n", "'C1' has a demand of 21", "'C2'"),
)

KEPT = (  # of eleven orders of 3 and two vehicles of 20
    case("no stops", "route,customer\n1,C1\n", "keep.csv has no column stop"),
    case("a stop in words", "route,stop,customer\na,first,C1\n", "row 2: stop is 'first', not a number"),
    case(
        "another demand",
        "route,stop,customer,demand\na,0,Depot,0\na,1,C1,3\na,2,C2,4\n",
        "row 4: the demand of 'C2' is '4', and 3 in the orders",
    ),
    case("a stop twice", "route,stop,customer\na,1,C1\nb,1,C2\na,1.0,C3\n", "row 4: route 'a' already has"),
    case("no route", "route,stop,customer\na,1,C1\n,2,C2\n", "row 3: route is missing"),
    case("its own mark", "route,stop,customer,kept\n1,1,C1,soon\n", "row 2: kept is 'soon', not yes, x or 1"),
    case("no mark", "route,stop,customer,kept\n1,1,C1,\n", "keep.csv keeps no route"),
    case("a gap", "route,stop,customer,kept\n1,1,C1,\n1,2,C2,1\n", "row 2: stop 1 of route '1' is not kept"),
    case("no order", "route,stop,customer\n1,1,C12\n", "row 2: the kept stop at 'C12' has no"),
    case("a stranger", "route,stop,customer\n1,1,X9\n", "row 2: 'X9' is not a customer of city 'city'"),
    case("twice", "route,stop,customer\n1,1,C1\n2,1,C1\n", "row 3: customer 'C1' is already on a route"),
    case(
        "too much",
        "route,stop,customer\n" + "".join(f"1,{k},C{k}\n" for k in range(1, 8)),
        "route '1' has a demand of 21, more than 20",
    ),
    case("too many", "route,stop,customer\n1,1,C1\n2,1,C2\n3,1,C3\n", "keeps 3 routes, --fleet allows 2"),
    case(
        "no vehicle left", "route,stop,customer\n1,1,C1\n2,1,C2\n", "keeps 2 routes, --fleet allows 2, and 9"
    ),
)
