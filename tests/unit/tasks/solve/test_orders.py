"""Orders of a day: files become an instance, or one sentence that names all faults."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, DateOrder
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.malformed import parquet
from tests.support.workbook import DAY, xlsx

CITY = City.uniform(1200, seed=1)
NAMES = Addresses(("Depot", *(f"C{k}" for k in range(1, 1201))))
SOUND = "customer,demand\nC1,3\nC2,4\n"


def day(data: str | bytes, tmp_path: Path, capacity: int | None = 20, city: City = CITY, **read: Any) -> Day:
    file = tmp_path / read.get("name", "day.csv")
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    store = Store.open(tmp_path)
    return checked_day(read_orders(str(file), store), city, NAMES, "town", capacity)


def test_columns_may_have_names_of_their_own(tmp_path: Path) -> None:
    """Those of the city are tried first, those of the day are needed; id may then be another column."""
    (tmp_path / "day.csv").write_text("Code-Client;Colis;Customer;Service\nC5;3;Shop;x\n")
    table = read_orders(str(tmp_path / "day.csv"), Store.open(tmp_path))
    names = replace(NAMES, columns={"id": "code client"})
    columns = SolveSpec(columns={"customer": "code client", "demand": "Colis", "capacity": "Service"})
    with pytest.raises(McvrpError, match="Service is 'x', not a whole number"):
        checked_day(table, CITY, names, "town", None, columns)
    (tmp_path / "day.csv").write_text("Code-Client;Colis;Customer;id\nC5;3;Shop;7\n")
    table = read_orders(str(tmp_path / "day.csv"), Store.open(tmp_path))
    result = checked_day(table, CITY, names, "town", 20, SolveSpec(columns={"demand": "colis"}))
    assert (result.instance.ids.tolist(), result.instance.demands.tolist()) == ([5], [3])
    assert result.further == {"Customer": {5: "Shop"}, "id": {5: "7"}}
    with pytest.raises(McvrpError, match=r"no column 'Menge' \(columns: .*--columns demand=NAME"):
        checked_day(table, CITY, names, "town", 20, SolveSpec(columns={"demand": "Menge"}))
    with pytest.raises(McvrpError, match="no column demand"):
        checked_day(table, CITY, names, "town", 20)
    assert day(SOUND, tmp_path).instance.ids.tolist() == [1, 2]  # the city's names are no obligation


TWO_DAYS = "date,customer,demand\n2026-11-30,C1,3\n2026-11-30,C2,3\n2026-12-01,C3,3\n2026-12-01,C4,2\n"
MONDAY, TUESDAY = datetime.date(2026, 11, 30), datetime.date(2026, 12, 1)


def of_date(
    store: Store, data: str | bytes, date: datetime.date | None, names: Addresses = NAMES, **spec: Any
) -> Day:
    store.put("days", data if isinstance(data, bytes) else data.encode())
    table = read_orders("store:days", store)
    return checked_day(table, CITY, names, "town", 20, SolveSpec(**spec), date)


def test_orders_of_several_days_need_a_date(store: Store) -> None:
    """It chooses its orders; without it, and for other days, the error counts the rows per day."""
    days = r"2026-11-30 \(2\) and 2026-12-01 \(2\): choose one with --date"
    with pytest.raises(McvrpError, match=rf"^days has rows of 2 days, {days}"):
        of_date(store, TWO_DAYS, None)
    with pytest.raises(McvrpError, match=rf"^days has no row of 2026-11-29, but of {days}"):
        of_date(store, TWO_DAYS, datetime.date(2026, 11, 29))
    result = of_date(store, TWO_DAYS.replace("C3,3", "X9,x"), MONDAY)
    assert (result.instance.ids.tolist(), result.orders) == ([1, 2], 2)
    assert "2 of 4 rows of days are of 2026-11-30, the others were left out" in result.notes
    assert of_date(store, TWO_DAYS, TUESDAY).instance.ids.tolist() == [3, 4]
    assert not of_date(store, TWO_DAYS, TUESDAY).further, "each file has the date already"
    timed = of_date(store, TWO_DAYS.replace("2026-12-01", "2026-12-01 09:30"), TUESDAY)
    assert set(timed.further["date"].values()) == {"2026-12-01 09:30"}
    for undated in (SOUND, "date,customer,demand\n,C1,3\n,C2,4\n"):
        result = of_date(store, undated, TUESDAY)
        assert result.instance.n == 2
        assert "days has no column date: all of its rows are taken as those of 2026-12-01" in result.notes
        assert of_date(store, undated, None).notes == ()
    with pytest.raises(McvrpError, match="row 5: customer is missing"):  # as the file counts
        of_date(store, TWO_DAYS.replace("C4,2", ",2"), TUESDAY)


DAYS = pd.DataFrame({"date": pd.to_datetime([MONDAY, TUESDAY]), "customer": ["C1", "C2"], "demand": 3})


@pytest.mark.parametrize(
    "data",
    [
        "date;customer;demand\n30.11.2026;C1;3\n1.12.2026;C2;3\n",
        "date,customer,demand\n2026-11-30 08:15,C1,3\n2026-12-01T09:00:00Z,C2,3\n",
        xlsx({"A": [["date", "customer", "demand"], [(DAY, 46356), "C1", 3], [(DAY, 46357.25), "C2", 3]]}),
        parquet(DAYS),
        parquet(DAYS.assign(date=DAYS["date"] + pd.Timedelta("9h"))),
        parquet(DAYS.assign(date=DAYS["date"].dt.date)),
        parquet(DAYS.assign(date=DAYS["date"].dt.tz_localize("Asia/Tokyo"))),
        parquet(DAYS.assign(date=DAYS["date"].astype(str))),
    ],
    ids=range(8),
)
def test_dates_are_read_in_all_files(store: Store, data: str | bytes) -> None:
    with pytest.raises(McvrpError, match=r"rows of 2 days, 2026-11-30 \(1\) and 2026-12-01 \(1\)"):
        of_date(store, data, None)
    assert of_date(store, data, TUESDAY).instance.ids.tolist() == [2]


def test_a_date_that_is_not_clear_is_refused_by_row(store: Store) -> None:
    """Unless it does not matter: a single text is a single day."""
    head = "date,customer,demand\n"
    no_date = "not a date like 2026-01-31 or 31.01.2026"
    for cells, message in (
        (("02/11/2026", "03/11/2026"), f"row 2: date is '02/11/2026', {no_date}: .*set town --dates"),
        (("2026-11-30", "soon"), f"row 3: date is 'soon', {no_date}$"),
        (("31.11.2026", "2.12.26"), rf"row 2: date is '31.11.2026', {no_date}; .*'2.12.26', {no_date}$"),
        (("2026-11-30", ""), "row 3: date is missing"),
    ):
        for date in (None, MONDAY):
            with pytest.raises(McvrpError, match=message):
                of_date(store, f"{head}{cells[0]},C1,1\n{cells[1]},C2,1\n", date)
    same = f"{head}02/11/2026,C1,1\n02/11/2026,C2,1\n"
    assert of_date(store, same, None).instance.n == 2
    with pytest.raises(McvrpError, match="row 2: date is '02/11/2026'"):
        of_date(store, same, datetime.date(2026, 11, 2))


@pytest.mark.parametrize(("order", "first"), [("day-first", (11, 2)), ("month-first", (2, 11))])
def test_dates_are_in_the_order_of_the_city(store: Store, order: DateOrder, first: tuple[int, int]) -> None:
    names = replace(NAMES, dates=order)
    orders = "date,customer,demand\n02/11/2026,C1,3\n03/11/2026,C2,3\n2026-12-24,C3,3\n"
    assert of_date(store, orders, datetime.date(2026, *first), names).instance.ids.tolist() == [1]
    with pytest.raises(McvrpError, match=f"rows of 3 days, {datetime.date(2026, *first)} "):
        of_date(store, orders, None, names)


def test_the_date_may_have_a_name_of_its_own(store: Store) -> None:
    """A column of another name that has several days is noted, unless there is a date."""
    own = TWO_DAYS.replace("date", "Jour")
    with pytest.raises(McvrpError, match="rows of 2 days"):
        of_date(store, own, None, columns={"date": "jour"})
    assert of_date(store, own, MONDAY, columns={"date": "jour"}).instance.n == 2
    with pytest.raises(McvrpError, match=r"no column 'Tag' .*--columns date=NAME"):
        of_date(store, own, MONDAY, columns={"date": "Tag"})
    note = "Jour: dates of several days, and all are routed"
    assert any(each.startswith(note) for each in of_date(store, own, None).notes)
    with pytest.raises(McvrpError, match=r"several days in Jour: .*--columns 'date=Jour'"):
        of_date(store, own, MONDAY)
    since = own.replace("2026-11-30", "2020-01-31")  # not the day's
    assert any(each.startswith(note) for each in of_date(store, since, MONDAY).notes)
    local = (
        TWO_DAYS.replace("date", "Datum")
        .replace("2026-11-30", "02/11/2026")
        .replace("2026-12-01", "03/11/2026")
    )
    assert any(each.startswith("Datum: dates of several days") for each in of_date(store, local, None).notes)
    both = TWO_DAYS.replace("date", "date,Jour").replace("2026-1", "2026-11-30,2026-1")
    assert not any("all are routed" in note for note in of_date(store, both, None).notes)


def test_orders_become_an_instance(tmp_path: Path) -> None:
    """Nodes ascend, demands of a customer are added, further columns are carried; any number."""
    result = day("customer,demand,name,phone\nC5,3,Ann,5\nC1,2,,\nC5,4,,\nC5,1,,\n", tmp_path)
    assert result.instance.ids.tolist() == [1, 5]
    assert result.instance.demands.tolist() == [2, 8]
    assert (result.instance.capacity, result.orders) == (20, 4)
    assert "orders of the same customer merged: 3 of 'C5' into one of 8" in result.notes
    assert result.further == {"name": {5: "Ann"}, "phone": {5: "5"}}
    assert (day(SOUND, tmp_path).notes, day(SOUND, tmp_path).further) == ((), {})
    rows = "".join(f"C{k},1\n" for k in range(1, 1201))  # more than the paper's table of capacities covers
    assert day(f"customer,demand\n{rows}", tmp_path).instance.n == 1200


@pytest.mark.parametrize(
    "data",
    [
        "id;demand\nC1;3\nC2;4\n",
        "Customer ID\tDEMAND\nC1\t3\nC2\t4.0\n",
        "customer-id,demand\nC1,3\nC2,4\n",
        parquet(pd.DataFrame({"customer": ["C1", "C2"], "demand": [3.0, 4.0]})),
        "customer,demand,id,tw_start\nC1,3,order-1,\nC2,4,order-2,\n",  # an empty column asks for nothing
        "customer,demand,capacity\nC1,3,20\nC2,4,\n",
    ],
    ids=range(6),
)
def test_names_of_columns_and_cells(data: str | bytes, tmp_path: Path) -> None:
    result = day(data, tmp_path).instance
    assert (result.ids.tolist(), result.demands.tolist()) == ([1, 2], [3, 4])


def test_orders_of_a_form(store: Store) -> None:
    orders = [Order(customer="C2", demand=4), Order(customer="C1", demand=3)]
    assert Order.model_validate({"customer": 7, "demand": 1}).customer == "7"
    result = checked_day(read_orders(orders, store), CITY, NAMES, "town", 20)
    assert (result.source, result.instance.ids.tolist()) == ("orders", [1, 2])
    windowed = [Order.model_validate({"customer": "C1", "demand": 1, "tw_start": "8:00"})]
    with pytest.raises(McvrpError, match="tw_start of orders asks for a time window"):
        checked_day(read_orders(windowed, store), CITY, NAMES, "town", 20)


def test_the_capacity_comes_from_option_column_or_city(tmp_path: Path) -> None:
    own = City(CITY.xy, capacity=(31, 31))
    assert day("customer,demand,capacity\nC1,3,25\nC2,3,25\n", tmp_path, None).instance.capacity == 25
    assert day(SOUND, tmp_path, None, own).instance.capacity == 31
    assert day(SOUND, tmp_path, 22, own).instance.capacity == 22
    for capacity, city, message in (
        (None, CITY, "no capacity of a vehicle: give it"),
        (None, City(CITY.xy, capacity=(30, 40)), "in this city 30 to 40"),
        (0, CITY, "whole number from 1 to 16,777,216"),
        (20_000_000, CITY, "whole number from 1 to 16,777,216"),
    ):
        with pytest.raises(McvrpError, match=message):
            day(SOUND, tmp_path, capacity, city)
    with pytest.raises(McvrpError, match=r"no capacity .*row 2: 'nobody' is not a customer"):
        day("customer,demand\nnobody,3\n", tmp_path, None)


def test_orders_are_read_from_the_store_or_refused(tmp_path: Path) -> None:
    """A missing file, a folder, a path out of the store, an address without a store, no orders."""
    store = Store.open(tmp_path / "store")
    store.put("incoming/monday.csv", SOUND.encode())
    assert read_orders("store:incoming/monday.csv", store).name == "monday.csv"
    for place in ("nowhere.csv", str(tmp_path), "store:nowhere.csv", "ftp://host/day.csv", list[Order]()):
        with pytest.raises(McvrpError):
            read_orders(place, store)
    with pytest.raises(McvrpError, match="leads out of the store"):
        read_orders("store:../monday.csv", store)


def test_large_demands_are_kept(tmp_path: Path) -> None:
    result = day("customer,demand\nC1,60000\nC1,5535\n", tmp_path, 100_000)
    np.testing.assert_array_equal(result.instance.demands, [65_535])
    with pytest.raises(McvrpError, match="has a demand of 65,536 in 2 orders, more than 65,535"):
        day("customer,demand\nC1,60000\nC1,5536\n", tmp_path, 100_000)
