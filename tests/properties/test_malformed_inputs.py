"""Malformed inputs, all that we could think of: one clear sentence each, and nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mcvrp.model.errors import LONGEST, McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.models.registry import enrol
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import AddressFile, CitySpec, make_city
from mcvrp.tasks.driven.take import Taken, take_routes
from mcvrp.tasks.solve.kept import read_kept, rest_of
from mcvrp.tasks.solve.orders import checked_day, read_orders
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solvers.solver import Limits
from tests.support import malformed, malformed_store
from tests.support.datasets import everything, label_spec, make_dataset
from tests.support.malformed import NAMES, TODAY, TOWN, Case, Place, as_bytes, sound
from tests.support.malformed_store import BEFORE, HEADER, StoreCase

Act = Callable[[], object]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    desk = Place(tmp_path_factory.mktemp("desk"))
    make_dataset(desk.store, label_spec(largest=20))
    make_city(desk.store, _city("own", desk.file(sound(), "own.csv"), spare=1))
    card = ModelCard("m", 1, "c", {}, "run", "d", "f", True, {}, 1, "abc")
    desk.store.put_json(layout.model_card("m", 1), asdict(card))
    enrol(desk.store, "m", 1)
    desk.store.put("incoming/before.csv", f"{HEADER}\n{BEFORE},a,1,C9,1,10\n".encode())
    _take(desk.store)
    return desk.folder


@pytest.fixture
def desk(furnished: Path, tmp_path: Path) -> Place:
    shutil.copytree(furnished / "store", tmp_path / "store")
    return Place(tmp_path)


def _city(name: str, file: str, **options: object) -> CitySpec:
    addresses = AddressFile.model_validate({"file": file, **options})
    return CitySpec(name=name, source="imported", addresses=addresses)


def _take(store: Store) -> Taken:
    return take_routes(store, StoredCity("town", TOWN, NAMES, "imported"), today=TODAY)[0]


# Each of the following lays a case where people lay it, and returns what the command does then. The message
# is that of the error, or the result.


def addresses(desk: Place, case: Case) -> Act:
    spec = _city("new", desk.file(case.data, "own.csv"), **case.options)
    return lambda: make_city(desk.store, spec)


def more_addresses(desk: Place, case: Case) -> Act:
    spec = _city("new", desk.file(case.data, "more.csv"), extends="own", **case.options)
    return lambda: make_city(desk.store, spec)


def matrix(desk: Place, case: Case) -> Act:
    file, costs = desk.file(malformed.TRIANGLE, "own.csv"), desk.file(case.data, "costs")
    return lambda: make_city(desk.store, _city("new", file, matrix=costs))


def orders(desk: Place, case: Case) -> Act:
    file = desk.file(case.data, "day.csv")
    return lambda: checked_day(read_orders(file, desk.store), TOWN, NAMES, "town", 20)


def columns(desk: Place, case: Case) -> Act:
    """Orders with the columns of a shift, and of customers to leave out."""
    file, spec = desk.file(case.data, "day.csv"), SolveSpec(shift=9.0, drop=True)
    return lambda: checked_day(read_orders(file, desk.store), TOWN, NAMES, "town", 20, spec=spec)


def kept(desk: Place, case: Case) -> Act:
    """Routes to keep on a day of all customers but the last, with one order of 3 each and two vehicles."""
    rows = "".join(f"C{k},3\n" for k in range(1, 12))
    file, routes = desk.file(f"customer,demand\n{rows}", "day.csv"), desk.file(case.data, "keep.csv")
    day = checked_day(read_orders(file, desk.store), TOWN, NAMES, "town", 20)

    def act() -> None:
        decided = read_kept(desk.store, routes, NAMES, day.instance)
        rest_of(decided, TOWN, day.instance, Limits(fleet=2))

    return act


def routes(desk: Place, case: Case) -> Act:
    """A night's file of routes, which is refused whole."""
    desk.store.put("incoming/routes.csv", as_bytes(case.data))

    def act() -> str:
        taken = _take(desk.store)
        assert taken.days == ()
        (refused,) = taken.refused
        return refused

    return act


def stored(desk: Place, case: StoreCase) -> Act:
    case.change(desk.store)
    return lambda: case.ask(desk.store)


WAYS_IN: dict[Callable[[Place, Any], Act], Sequence[Case | StoreCase]] = {
    addresses: malformed.ADDRESSES,
    more_addresses: malformed.MORE_ADDRESSES,
    matrix: malformed.MATRICES,
    orders: malformed.ORDERS,
    columns: malformed.COLUMNS,
    kept: malformed.KEPT,
    routes: malformed_store.ROUTES,
    stored: malformed_store.STORED,
}
CASES = [(way, case) for way, cases in WAYS_IN.items() for case in cases]


@pytest.mark.parametrize(
    ("way", "case"), CASES, ids=[f"{way.__name__}: {case.name}".replace("_", " ") for way, case in CASES]
)
def test_a_malformed_input_is_one_sentence_and_loses_nothing(
    desk: Place, way: Callable[[Place, Any], Act], case: Case | StoreCase
) -> None:
    """Every byte of the store is there afterwards, and nothing new but what became of a file of routes."""
    act = way(desk, case)
    before = everything(desk.store)
    try:
        message = str(act())
    except McvrpError as error:
        message = str(error)
    assert all(part in message for part in case.parts), message
    assert "\n" not in message
    assert len(message.replace(str(desk.folder), "")) <= LONGEST
    after = everything(desk.store)
    before.pop(layout.driven_card("town"), None)  # it tells of what there is
    assert after.items() >= before.items()
    assert all(path.startswith("driven/town/") for path in after.keys() - before.keys())
