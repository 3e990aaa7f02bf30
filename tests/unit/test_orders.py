"""Tests of a day's orders: what people bring becomes an instance, or one sentence that names every fault."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from model.errors import McvrpError
from model.problem import City
from storage.cities import Addresses
from storage.store import Store
from tasks.orders import Day, Merged, checked_day, read_orders
from tasks.solve_spec import Order

CITY = City.uniform(1200, seed=1)
NAMES = Addresses(("Depot", *(f"C{k}" for k in range(1, 1201))))
SOUND = "customer,demand\nC1,3\nC2,4\n"


def day(data: str | bytes, tmp_path: Path, capacity: int | None = 20, city: City = CITY, **read: Any) -> Day:
    file = tmp_path / read.get("name", "day.csv")
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    store = Store.open(tmp_path)
    return checked_day(read_orders(str(file), store), city, NAMES, "town", capacity)


def parquet(columns: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    pd.DataFrame(columns).to_parquet(buffer)
    return buffer.getvalue()


def test_orders_become_an_instance(tmp_path: Path) -> None:
    """Node numbers ascend, demands stand beside their customer, nothing is to be noted."""
    found = day("customer,demand\nC7,3\nC2,4\n", tmp_path)
    assert found.instance.ids.tolist() == [2, 7]
    assert found.instance.demands.tolist() == [4, 3]
    assert (found.instance.capacity, found.orders, found.merged, found.ignored) == (20, 2, (), ())


@pytest.mark.parametrize(
    "data",
    [
        "id;demand\nC1;3\nC2;4\n",
        "Customer ID\tDEMAND\nC1\t3\nC2\t4\n",
        "\ufeffcustomer-id, demand \r\nC1,3.0\r\n\r\n C2 , 4 \r\n",
        SOUND.encode("utf-16"),
        parquet({"customer": ["C1", "C2"], "demand": [3, 4]}),
        parquet({"customer": ["C1", "C2"], "demand": [3.0, 4.0]}),
        "customer,demand,id,tw_start\nC1,3,order-1,\nC2,4,order-2,\n",  # an empty column asks for nothing
        "customer,demand,capacity\nC1,3,20\nC2,4,\n",
    ],
    ids=str,
)
def test_files_as_people_have_them(data: str | bytes, tmp_path: Path) -> None:
    """Separators, encodings, spellings of the header, blank lines, Parquet: the same two orders."""
    found = day(data, tmp_path).instance
    assert (found.ids.tolist(), found.demands.tolist()) == ([1, 2], [3, 4])


def test_several_orders_of_a_customer_are_one(tmp_path: Path) -> None:
    """Their demands are added, it is said, and no demand gets lost."""
    found = day("customer,demand\nC5,3\nC1,2\nC5,4\nC5,1\n", tmp_path)
    assert found.merged == (Merged("C5", 3, 8),)
    assert found.instance.ids.tolist() == [1, 5]
    assert found.instance.demands.tolist() == [2, 8]
    assert found.orders == 4


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    """Names and telephones may be there; who brings them is told that nobody looks."""
    assert day("customer,demand,name,phone\nC1,3,Ann,5\n", tmp_path).ignored == ("name", "phone")


@pytest.mark.parametrize("n", [1, 5, 1200])
def test_any_number_of_customers_will_do_with_a_capacity(n: int, tmp_path: Path) -> None:
    """Fewer than 20, and more than the paper's table of capacities covers."""
    rows = "".join(f"C{k},1\n" for k in range(1, n + 1))
    assert day(f"customer,demand\n{rows}", tmp_path).instance.n == n


def test_the_capacity_comes_from_option_column_or_city(tmp_path: Path) -> None:
    """One of them is enough; of the city, where all its vehicles hold the same."""
    own = City(CITY.xy, capacity=(31, 31))
    assert day("customer,demand,capacity\nC1,3,25\nC2,3,25\n", tmp_path, None).instance.capacity == 25
    assert day(SOUND, tmp_path, None, own).instance.capacity == 31
    assert day(SOUND, tmp_path, 22, own).instance.capacity == 22


def test_orders_may_be_given_instead_of_a_file(tmp_path: Path) -> None:
    """As a form gives them; they are checked as a file is."""
    store = Store.open(tmp_path)
    orders = [Order(customer="C2", demand=4), Order(customer="C1", demand=3)]
    assert Order.model_validate({"customer": 7, "demand": 1}).customer == "7"
    found = checked_day(read_orders(orders, store), CITY, NAMES, "town", 20)
    assert (found.source, found.instance.ids.tolist()) == ("orders", [1, 2])
    windowed = [Order.model_validate({"customer": "C1", "demand": 1, "tw_start": "8:00"})]
    with pytest.raises(McvrpError, match="tw_start of orders asks for a time window"):
        checked_day(read_orders(windowed, store), CITY, NAMES, "town", 20)


def test_orders_may_lie_in_the_store(tmp_path: Path) -> None:
    """Where a worker is another machine, the store is what both see."""
    store = Store.open(tmp_path / "store")
    store.put("incoming/monday.csv", SOUND.encode())
    assert read_orders("store:incoming/monday.csv", store).name == "monday.csv"
    with pytest.raises(McvrpError, match="leaves the store"):
        read_orders("store:../monday.csv", store)


MALFORMED = [
    ("", ["day.csv is empty"]),
    ("customer,demand\n", ["no rows"]),
    ("customer,amount\nC1,3\n", ["no column demand", "amount"]),
    ("name,demand\nC1,3\n", ["no column customer (or id)", "name"]),
    ("C1,3\nC2,4\n", ["no column customer"]),
    ("customer,customer_id,demand\nC1,C1,3\n", ["customer and customer_id mean the same"]),
    ("customer,demand,Demand\nC1,3,4\n", ["two columns", "demand"]),
    ("customer,demand\nC1,2.5\n", ["row 2: demand '2.5' is no whole number"]),
    ("customer,demand\nC1,2\nC2,x\n", ["row 3: demand 'x'"]),
    ("customer,demand\nC1,nan\n", ["row 2: demand 'nan'"]),
    ("customer,demand\nC1,1e3\n", ["row 2: demand '1e3'"]),
    ("customer,demand\nC1,0\n", ["row 2: demand 0 is not positive"]),
    ("customer,demand\nC1,-4\n", ["row 2: demand -4 is not positive"]),
    ("customer,demand\nC1,\n", ["row 2: demand is missing"]),
    ("customer,demand\n,4\n", ["row 2: customer is missing"]),
    ("customer,demand\nC1,99999999999999999999\n", ["row 2", "more than 65,535"]),
    ("customer,demand\nX9,4\n", ["row 2: 'X9' is no customer of city 'town'"]),
    ("customer,demand\nDepot,4\n", ["row 2: 'Depot' is the depot"]),
    ("customer,demand\nX9,2.5\nC1,0\n\nC2,x\n", ["'X9'", "2.5", "row 3", "row 5: demand 'x'"]),
    ("customer,demand\nC1,21\n", ["customer 'C1' wants 21, a vehicle holds 20"]),
    ("customer,demand\nC1,12\nC1,9\n", ["customer 'C1' wants 21 in 2 orders, a vehicle holds 20"]),
    ("customer,demand\n" + "X,1\n" * 30, ["row 2:", "10 more"]),
    ("customer,demand,capacity\nC1,1,20\nC2,1,30\n", ["two capacities", "20 in row 2", "30 in row 3"]),
    ("customer,demand,capacity\nC1,1,30\n", ["20 as an option and 30"]),
    ("customer,demand,capacity\nC1,1,lots\n", ["row 2: capacity 'lots'"]),
    ("customer,demand,vehicles\nC1,1,3\n", ["vehicles of day.csv asks for a limit of the fleet"]),
    ("customer,demand,TW Start\nC1,1,8:00\n", ["tw_start of day.csv asks for a time window"]),
    ("customer,demand,due\nC1,1,17\n", ["due of day.csv asks for a time window", "remove it"]),
    (b"customer,demand\nC1,\x00\x01\x02\n", ["day.csv", "binary"]),
    (b"PK\x03\x04rest", ["spreadsheet"]),
    (parquet({"customer": ["C1"], "demand": [3]})[:200], ["no whole Parquet file"]),
    (parquet({"customer": ["C1", None], "demand": [3, None]}), ["row 2: customer is missing", "demand is"]),
]


@pytest.mark.parametrize(("data", "said"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_orders_are_one_sentence(data: str | bytes, said: list[str], tmp_path: Path) -> None:
    """The file, the row, what was found: all faults at once, on one line."""
    with pytest.raises(McvrpError) as caught:
        day(data, tmp_path)
    assert all(part in str(caught.value) for part in said), caught.value
    assert "\n" not in str(caught.value)


def test_a_day_needs_a_capacity(tmp_path: Path) -> None:
    """A guess would be the worst of answers; a city's range is told."""
    with pytest.raises(McvrpError, match="does not say what a vehicle holds: give --capacity"):
        day(SOUND, tmp_path, None)
    with pytest.raises(McvrpError, match="in this city 30 to 40"):
        day(SOUND, tmp_path, None, City(CITY.xy, capacity=(30, 40)))
    for wrong in (0, -3, 20_000_000):
        with pytest.raises(McvrpError, match="whole number from 1 to 16,777,216"):
            day(SOUND, tmp_path, wrong)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A path, a folder, an address without a store behind it, a list without orders."""
    store = Store.open(tmp_path)
    for place in ("nowhere.csv", str(tmp_path), "store:nowhere.csv", "ftp://host/day.csv", []):
        with pytest.raises(McvrpError):
            read_orders(place, store)


def test_large_demands_are_kept(tmp_path: Path) -> None:
    """Up to what 16 bits hold, whatever the number of orders; beyond, they are refused, not cut off."""
    found = day("customer,demand\nC1,60000\nC1,5535\n", tmp_path, 100_000)
    np.testing.assert_array_equal(found.instance.demands, [65_535])
    with pytest.raises(McvrpError, match="wants 65,536 in 2 orders, more than 65,535"):
        day("customer,demand\nC1,60000\nC1,5536\n", tmp_path, 100_000)
