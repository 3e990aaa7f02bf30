"""Malformed route files, and stored files that are corrupt, misnamed or missing, as in `malformed`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from mcvrp.flows.cli.inspect import inspect
from mcvrp.flows.cli.models import promote_version
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_results
from mcvrp.storage.cities import load_city
from mcvrp.storage.driven import driven_days, read_day, receipts
from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.models.attention import attention_card
from mcvrp.storage.models.models import model_card
from mcvrp.storage.models.registry import pointer, roll_back
from mcvrp.storage.store.store import Store
from tests.support.malformed import Case, case

DAY, BEFORE = "2026-02-27", "2026-02-26"  # of the cases, and one that the city has already
HEADER = "date,route,stop,customer,demand,capacity"
_GOOD = f"{HEADER}\n{DAY},north,1,C1,4,10\n{DAY},north,2,C2,6,10\n{DAY},south,1,C3,2,10\n"  # rows 2 to 4
_EAST = f"{DAY},east"


def _rows(name: str, rows: str, *said: str) -> Case:
    """Return the case of good rows with others behind them, from row 5 on."""
    return case(name, f"{_GOOD}{rows}\n", *said)


ROWS = (  # two good routes and a bad one, with its expected reasons
    _rows("no date", ",east,1,C5,1,10", "row 5: date is missing"),
    _rows("no route", f"{DAY}, ,1,C5,1,10", "row 5: route is missing"),
    _rows("no customer", f"{_EAST},1,,1,10", "row 5: customer is missing"),
    _rows("another way to write a date", "27.02.2026,east,1,C5,1,10", "'27.02.2026' is not a date like"),
    _rows("other digits", "２０２６-02-27,east,1,C5,1,10", "is not a date like 2026-01-31"),
    _rows("no such day", "2026-02-30,east,1,C5,1,10", "date '2026-02-30' is not a date like 2026-01-31"),
    _rows("a day to come", "2026-03-02,east,1,C5,1,10", "date '2026-03-02' is in the future"),
    _rows("a day of old", "1926-02-27,east,1,C5,1,10", "date '1926-02-27' is before the year 2000"),
    _rows(
        "a day that is known", f"{BEFORE},east,1,C5,1,10", f"day {BEFORE} was already read from before.csv"
    ),
    _rows("stop 0", f"{_EAST},0,C5,1,10", "stop '0' is not a whole number from 1 to 65,535"),
    _rows("half a demand", f"{_EAST},1,C5,1.5,10", "demand '1.5' is not a whole number from 1 to 65,535"),
    _rows("a negative demand", f"{_EAST},1,C5,-1,10", "demand '-1' is not a whole number"),
    _rows("an infinite demand", f"{_EAST},1,C5,inf,10", "demand 'inf' is not a whole number"),
    _rows("a demand that is NaN", f"{_EAST},1,C5,nan,10", "demand 'nan' is not a whole number"),
    _rows("a huge demand", f"{_EAST},1,C5,1000000000000,10", "demand '1000000000000' is not a whole number"),
    _rows(
        "a word for a capacity", f"{_EAST},1,C5,1,ten", "capacity 'ten' is not a whole number from 1 to 4,294"
    ),
    _rows("an unknown customer", f"{_EAST},1,C13,1,10", "customer 'C13' is not in the city"),
    _rows("the depot", f"{_EAST},1,Depot,1,10", "customer 'Depot' is the depot: list only customers"),
    _rows("a stop that is missing", f"{_EAST},2,C5,1,10", "its route has 1 stops, numbered up to 2"),
    _rows("an overloaded vehicle", f"{_EAST},1,C5,11,10", "its route delivers 11, its capacity is 10"),
    _rows("another vehicle", f"{_EAST},1,C5,1,20", "its capacity is 20, that of most routes of the day 10"),
    _rows("a row twice", f"{DAY},south,1,C3,2,10", "row 5: duplicate of row 4"),
    _rows(
        "a stop twice",
        f"{_EAST},1,C5,1,10\n{_EAST},1,C6,1,10",
        *("row 5: its route has stop 1 twice", "row 6: its route has stop 1 twice"),
    ),
    _rows(
        "a fault that rejects its whole route",
        f"{_EAST},1,C5,1,10\n{_EAST},2,C99,1,10",
        *("row 5: its route has an error in row 6", "row 6: customer 'C99' is not in the city"),
    ),
    _rows(
        "a load too much together",
        f"{_EAST},1,C5,5,10\n{_EAST},2,C6,6,10",
        "row 5: its route delivers 11, its capacity is 10",
    ),
    _rows(
        "a customer twice",
        f"{_EAST},1,C5,1,10\n{_EAST},2,C5,2,10",
        "row 6: its route serves customer 'C5', which is served twice that day",
    ),
    case(
        "rows of a quarantine, half corrected",
        f"row,{HEADER},reason\n7,{DAY},north,1,C1,4,10,customer 'c1'\n8,{_EAST},1,C99,1,10,why",
        "row 3: customer 'C99' is not in the city",
    ),
)

FILES = (  # that cannot be read at all
    case("nothing in it", "", "routes.csv is empty"),
    case("a header alone", f"{HEADER}\n", "no rows"),
    case(
        "no dates", "day,stop\n1,2\n", "routes.csv has no column date, route, customer, demand and capacity"
    ),
    case("a column twice", f"{HEADER},date\n{DAY},a,1,C1,1,10,{DAY}\n", "two columns named date"),
    case("a row too long", f"{_GOOD}{_EAST},1,C5,1,10,more\n", "row 5 has 'more' in a column without"),
    case("a quote without end", f'{_GOOD}"{_EAST},1,C5,1,10\n', "routes.csv is not valid CSV"),
    case("half a spreadsheet", b"PK\x03\x04rest", "not a valid spreadsheet"),
    case("half a Parquet file", b"PAR1half of it", "not a valid Parquet file", "copy it again"),
)


@dataclass(frozen=True)
class StoreCase:
    """Something done to a store, what is asked of it then, and the parts of the answer."""

    name: str
    change: Callable[[Store], object]
    ask: Callable[[Store], object]
    said: tuple[str, ...]


def _cut(path: str) -> Callable[[Store], None]:
    return lambda store: store.put(path, store.get(path)[:-30])


def _put(path: str, data: bytes) -> Callable[[Store], None]:
    return lambda store: store.put(path, data)


def _nothing(_: Store) -> None:
    return None


_SHARD, _CHAMPION = layout.label_shard("d", 20, 0), layout.model_alias("m", "champion")
_YESTERDAY = datetime.date.fromisoformat(BEFORE)

STORED = (  # the store has city c, dataset d, version 1 of model m, and the day BEFORE of city town
    StoreCase("a cut shard", _cut(_SHARD), lambda s: load_labels(s, "d", 20), ("part-00000.parquet",)),
    StoreCase(
        "an empty shard", _put(_SHARD, b""), lambda s: load_labels(s, "d", 20), ("part-00000.parquet",)
    ),
    StoreCase("no shards", _nothing, lambda s: load_labels(s, "nothing", 20), ("nothing",)),
    StoreCase(
        "a cut city", _cut(layout.city_path("c")), lambda s: load_city(s, "c"), ("is not a readable city",)
    ),
    StoreCase("no card", _put(layout.city_card("c"), b"{"), lambda s: load_city(s, "c"), ("is not JSON",)),
    StoreCase("no city", _nothing, lambda s: load_city(s, "lyon"), ("no city 'lyon'", "mcvrp city")),
    StoreCase(
        "a name that climbs", _nothing, lambda s: load_city(s, "../c"), ("is not a valid name for a city",)
    ),
    StoreCase("a path that climbs", _nothing, lambda s: inspect(s, "../c"), ("leads out of the store",)),
    StoreCase("nothing there", _nothing, lambda s: inspect(s, "nowhere"), ("nowhere",)),
    StoreCase("no model", _nothing, lambda s: model_card(s, "n"), ("no model 'n'", "mcvrp train")),
    StoreCase("no version", _nothing, lambda s: model_card(s, "m", 9), ("no version 9, it has 1",)),
    StoreCase(
        "no alias", _nothing, lambda s: model_card(s, "m", "challenger"), ("no challenger", "version 1")
    ),
    StoreCase(
        "an alias of nothing",
        _put(_CHAMPION, b'{"version": 7}'),
        lambda s: model_card(s, "m", "champion"),
        ("no version 7",),
    ),
    StoreCase(
        "a wrong alias",
        _put(_CHAMPION, b'{"version": "one"}'),
        lambda s: pointer(s, "m", "champion"),
        ("champion.json is not a valid alias",),
    ),
    StoreCase(
        "a list for an alias",
        _put(_CHAMPION, b"[1]"),
        lambda s: pointer(s, "m", "champion"),
        ("not a valid alias",),
    ),
    StoreCase(
        "a version by name", _nothing, lambda s: promote_version(s, "m", "best", ""), ("'best' is not a ver",)
    ),
    StoreCase(
        "no earlier champion", _nothing, lambda s: roll_back(s, "m"), ("no champion before version 1",)
    ),
    StoreCase(
        "a card of another kind",
        _put(layout.model_card("m", 1), b"[]"),
        lambda s: model_card(s, "m"),
        ("model.json",),
    ),
    StoreCase(
        "a cut day",
        _cut(layout.driven_day("town", BEFORE)),
        lambda s: read_day(s, "town", _YESTERDAY),
        (f"{BEFORE}.parquet",),
    ),
    StoreCase(
        "an invalid day",
        lambda s: s.move(layout.driven_day("town", BEFORE), layout.driven_day("town", "monday")),
        lambda s: list(driven_days(s, "town")),
        ("is not named by a date",),
    ),
    StoreCase(
        "a receipt of another kind",
        _put(layout.driven_receipt("town", "0123"), b'{"days": []}'),
        lambda s: receipts(s, "town"),
        ("0123.json is not a valid receipt of a file of routes",),
    ),
    StoreCase(
        "no benchmark", _nothing, lambda s: read_results(s, "b"), ("no benchmark 'b'", "mcvrp benchmark")
    ),
    StoreCase(
        "a cut benchmark",
        _put("benchmarks/b/results.parquet", b"PAR1"),
        lambda s: read_results(s, "b"),
        ("results.parquet",),
    ),
    StoreCase(
        "no attention model's card",
        _put(layout.attention_card("a", 20), b"{}"),
        lambda s: attention_card(s, "a", 20),
        ("not a valid attention model's card",),
    ),
)
