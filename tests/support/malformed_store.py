"""Malformed route files, and stored files that are corrupt, misnamed or missing, as in `malformed`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcvrp.flows.cli.models import promote_version
from mcvrp.storage import layout
from mcvrp.storage.cities import load_city
from mcvrp.storage.driven import driven_days, taken_files
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


def _rows(name: str, rows: str, *parts: str) -> Case:
    """Return the case of good rows with others behind them, from row 5 on."""
    return case(name, f"{_GOOD}{rows}\n", *parts)


ROUTES = (  # a faulty row, or a file that is no table of routes, refuses the whole file
    _rows("no customer", f"{_EAST},1,,1,10", "row 5: customer is missing"),
    _rows("a customer of a known day", f"{BEFORE},east,1,C9,2,10", "2026-02-26", "incoming/before.csv"),
    _rows("stop 0", f"{_EAST},0,C5,1,10", "row 5: stop is '0', not a whole number from 1 to 65,535"),
    _rows("half a demand", f"{_EAST},1,C5,1.5,10", "row 5: demand is '1.5', not a whole number"),
    _rows("no capacity", f"{_EAST},1,C5,1,ten", "row 5: capacity is 'ten', not a whole number from 1"),
    _rows("an unknown customer", f"{_EAST},1,C13,1,10", "row 5: customer 'C13' is not in the city"),
    _rows("the depot", f"{_EAST},1,Depot,1,10", "row 5: customer 'Depot' is the depot: list only customers"),
    _rows("a gap", f"{_EAST},4,C5,1,10\n{_EAST},1,C6,1,10", "row 5: route 'east' has stop 4, but no stop 2"),
    _rows("another vehicle", f"{_EAST},1,C5,1,20", "row 5: capacity is 20, but 10 in row 2"),
    _rows("a stop twice", f"{_EAST},1,C5,1,10\n{_EAST},1,C6,1,10", "row 6: route 'east' has stop 1 twice"),
    _rows(
        "a load",
        f"{_EAST},1,C5,5,10\n{_EAST},2,C6,6,10",
        "row 5: route 'east' delivers 11, its capacity is 10",
    ),
    _rows(
        "a customer twice", f"{_EAST},1,C5,1,10\n{_EAST},2,C5,2,10", "row 6: customer 'C5' is served twice"
    ),
    _rows("no date", ",east,1,C5,1,10", "row 5: date is missing"),
    _rows("no route", f"{DAY},,1,C5,1,10", "row 5: route is missing"),
    _rows("another way to write a date", "27-Feb-26,east,1,C5,1,10", "'27-Feb-26' is not a date like"),
    _rows("a date with two meanings", "02/01/2026,east,1,C5,1,10", "row 5 may have day or month first: give"),
    _rows("no such day", "2026-02-30,east,1,C5,1,10", "date '2026-02-30' is not a date like 2026-01-31"),
    _rows("a day far away", "2026-12-02,east,1,C5,1,10", "date '2026-12-02' is in the future"),
    _rows("a day of old", "1926-02-27,east,1,C5,1,10", "date '1926-02-27' is before the year 2000"),
    case(
        "no dates",
        "day,stop\n1,2\n",
        "no column date, route, customer, demand, capacity (columns: day and stop)",
    ),
)


@dataclass(frozen=True)
class StoreCase:
    """Question to a store after a change to it, and a part of the answer."""

    name: str
    ask: Callable[[Store], object]
    parts: tuple[str, ...]
    change: Callable[[Store], object]


def _stored(
    name: str,
    ask: Callable[[Store], object],
    part: str,
    change: Callable[[Store], object] = lambda store: None,
) -> StoreCase:
    return StoreCase(name, ask, (part,), change)


def _cut(path: str) -> Callable[[Store], None]:
    return lambda store: store.put(path, store.get(path)[:-30])


def _put(path: str, data: bytes) -> Callable[[Store], None]:
    return lambda store: store.put(path, data)


_SHARD, _CHAMPION = layout.label_file("d", 20, 0, 6), layout.champion_move("m", 1)
_DAY = layout.driven_day("town", BEFORE)
_CARD, _WORD = layout.model_card("m", 1), b'{"version": "one"}'


def _labels(store: Store) -> object:
    return load_labels(store, "d", 20)


def _champion(store: Store) -> object:
    return pointer(store, "m", "champion")


def _yesterday(store: Store) -> object:
    return driven_days(store, "town")


STORED = (  # the store has city c, dataset d, version 1 of model m, and the day BEFORE of city town
    _stored("a cut shard", _labels, "rows-00000000-00000006.parquet", _cut(_SHARD)),
    _stored("a cut city", lambda s: load_city(s, "c"), "is not a readable city", _cut(layout.city_path("c"))),
    _stored("no card", lambda s: load_city(s, "c"), "is not JSON", _put(layout.city_card("c"), b"{")),
    _stored("no city", lambda s: load_city(s, "lyon"), "no city 'lyon'"),
    _stored("no model", lambda s: model_card(s, "n"), "no model 'n'"),
    _stored("no version", lambda s: model_card(s, "m", 9), "no version 9, it has version 1"),
    _stored("no alias", lambda s: model_card(s, "m", "challenger"), "no challenger"),
    _stored(
        "an alias of nothing",
        lambda s: model_card(s, "m", "champion"),
        "no version 7",
        _put(_CHAMPION, b'{"version": 7, "when": "", "by": "", "why": ""}'),
    ),
    _stored("a wrong alias", _champion, "1.json is not a valid move of a champion", _put(_CHAMPION, _WORD)),
    _stored("a version by name", lambda s: promote_version(s, "m", "best", ""), "'best' is no version"),
    _stored("no earlier champion", lambda s: roll_back(s, "m"), "no champion before version 1"),
    _stored("a card of another kind", lambda s: model_card(s, "m"), "model.json", _put(_CARD, b"[]")),
    _stored("a cut day", _yesterday, f"{BEFORE}.parquet", _cut(_DAY)),
    _stored(
        "an invalid day",
        lambda s: driven_days(s, "town"),
        "monday.parquet is not named by a date",
        lambda s: s.put(layout.driven_day("town", "monday"), s.get(_DAY)),
    ),
    _stored(
        "a list of taken files of another kind",
        lambda s: taken_files(s, "town"),
        "remove it, and the files are read again",
        _put(layout.driven_taken("town"), b"{}"),
    ),
    _stored(
        "no attention model's card",
        lambda s: attention_card(s, "a", 20),
        "not a valid attention model's card",
        _put(layout.attention_card("a", 20), b"{}"),
    ),
)
