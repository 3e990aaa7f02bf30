"""Optional columns of orders: durations with units, priorities, and what no route respects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.importer import import_city
from mcvrp.tasks.city.spec import AddressFile
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.wishes import Wishes, read_wishes

CITY = City.uniform(12, seed=1)
NAMES = Addresses.numbered(12)


def day(store: Store, header: str, *cells: object, **spec: object) -> Day:
    """Return a day of an order of 1 for each of ``cells``, in a last column with this ``header``."""
    rows = "".join(f"{k};1;{cell}\n" for k, cell in enumerate(cells, start=1))
    store.put("day.csv", f"customer;demand;{header}\n{rows}".encode())
    checked = SolveSpec.model_validate(spec)
    return checked_day(read_orders("store:day.csv", store), CITY, NAMES, "town", 20, checked)


def test_a_number_is_in_seconds_unless_it_has_a_unit(store: Store) -> None:
    wishes = day(store, "service", "3", "3min", "1h 2min", "", shift="8h", service="5min").wishes
    assert wishes.service == {1: 3.0, 2: 180.0, 3: 3720.0, 4: 300.0}
    assert wishes.service_text == "3 s to 1 h 2 min per order"
    assert day(store, "note", "x", shift=600, service=9).wishes.service_text == "9 s per stop"
    assert day(store, "service", 9, start_time="8:00").wishes.service == {1: 9.0}


@pytest.mark.parametrize("title", ["service_min", "Service (Minuten)", "stop h", "MIN"])
def test_a_number_in_a_column_of_minutes_is_no_second(store: Store, title: str) -> None:
    columns = {"shift": "8h", "columns": {"service": title}}
    with pytest.raises(McvrpError, match=r"row 3: .* is 4, which would be seconds"):
        day(store, title, "3min", 4, **columns)
    assert day(store, title, "3min", **columns).wishes.service == {1: 180.0}
    assert day(store, "Aminh", 4, shift="8h", columns={"service": "Aminh"}).wishes.service == {1: 4.0}


def test_lines_of_one_order_are_one_stop(store: Store) -> None:
    """Without a column of service times a customer's is counted once, however many articles it orders."""
    rows = [{"customer": name, "demand": 1} for name in "1112"]
    table = read_orders(list(map(Order.model_validate, rows)), store)
    spec = SolveSpec(shift=600, service=9)
    assert read_wishes(table, [1, 1, 1, 2], spec, Faults("orders")).service == {1: 9.0, 2: 9.0}


def test_the_columns_may_have_names_of_the_city(store: Store) -> None:
    """The sum or the highest of a customer's orders; a field that an order lacks is an empty cell."""
    fields: list[dict[str, object]] = [{"Durée": 20, "Prio": 2}, {"Durée": "", "Prio": 3}, {"priority": "x"}]
    rows = [{"customer": name, "demand": 1} | more for name, more in zip("112", fields, strict=True)]
    table = read_orders(list(map(Order.model_validate, rows)), store)
    names = replace(NAMES, columns={"service": "Durée", "priority": "Prio"})
    spec = SolveSpec(shift=600, service=9, drop=True)
    wishes = Wishes({1: 29.0, 2: 9.0}, {1: 3.0, 2: 0.0}, ("durée",))
    read = checked_day(table, CITY, names, "town", 9, spec)
    assert read.wishes == wishes
    assert read.further.keys() == {"Prio", "priority"}
    assert checked_day(table, CITY, names, "town", 9).further.keys() == {"Durée", "Prio", "priority"}


@pytest.mark.parametrize("cell", ["3 mn", "0:03:00", "min", "1.2.3min", "-3min"])
def test_what_is_no_duration_is_refused(store: Store, cell: str) -> None:
    message = f"row 2: service is '{cell}', not a number of seconds or a duration such as 2.5min"
    with pytest.raises(McvrpError, match=message):
        day(store, "service", cell, shift=600)


def test_columns_that_are_not_used_are_named(store: Store) -> None:
    """With --drop and no priority, or --shift and no service; not if the option has nothing to use."""
    unused = "not used: Créneau and Rang (if one of them has it, name it: --columns"
    header = "Créneau;Rang"
    notes = day(store, header, "matin;1", "soir;2", drop=True).notes
    assert f"no column priority, so all customers are equally urgent; {unused} priority=NAME)" in notes
    notes = day(store, header, "matin;1", "soir;2", shift=600).notes
    assert f"no column service, so stops take 0 s; {unused} service=NAME)" in notes
    for spec in ({}, {"drop": True, "columns": {"priority": "Rang"}}, {"shift": 600, "service": 9}):
        assert not any("not used" in note for note in day(store, header, "matin;1", "soir;2", **spec).notes)
    assert day(store, "priority", 1, drop=True).notes == ()


TIMES = ["8:00", "08:00-10:00", "8h-10h", "entre 8h30 et 10h", "8-10h", "10.30 Uhr", "until 5 pm", "08:15:00"]


@pytest.mark.parametrize("cell", TIMES)
def test_times_of_day_are_named_as_not_respected(store: Store, cell: str) -> None:
    """Whatever their column is called; in orders and in addresses."""
    note = "Créneau: looks like times of day, which no routes here respect"
    assert note in day(store, "Créneau", cell, "", cell).notes
    store.put("own.csv", f"id;x;y;depot;Créneau\nd;0;0;1;\na;1;1;;{cell}\n".encode())
    spec = AddressFile(file="store:own.csv")
    assert note in import_city(store, spec).notes


def test_other_texts_are_no_times_of_day(store: Store) -> None:
    """Also a note with a time among others."""
    for cell in ("2026-11-30", "12", "8.30", "12 hens", "3:99", "Box 24", "1:2"):
        assert not any("times of day" in note for note in day(store, "note", cell).notes)
    notes = day(store, "note", "ring at 8:00", "second floor", "dog").notes
    assert not any("times of day" in note for note in notes)
