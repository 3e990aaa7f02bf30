"""Numbers in user files are exact; CSV has no formula, and every text survives a round trip."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, StoredCity, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.importer import fitted
from mcvrp.tasks.driven.rules import checked_days
from mcvrp.tasks.driven.take import take_routes
from mcvrp.tasks.files.csv_cells import NUMBER, Dialect, csv_bytes, whole
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import column_key, read_tabular
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.solve.day import solve_day
from mcvrp.tasks.solve.earlier import read_start
from mcvrp.tasks.solve.orders import Day, checked_day, read_orders
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.plan import Request, plan_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.malformed import NAMES, TODAY, TOWN, parquet
from tests.support.workbook import xlsx

TITLE = st.text(st.sampled_from("'=+-@＝1a"), max_size=6)
IDS = ("Depot", "=1+1", "+x", "-2+3", "@SUM(1)", "'=a", "-3.5", "+41791234567", "'quoted'", "C'1")
CITY, STORED = City.uniform(len(IDS) - 1, seed=1), StoredCity("town", TOWN, NAMES, "imported")
TEXT = st.text(st.sampled_from("'=+-@＝1a. ,;\"\n\t"), max_size=6).map(str.strip)


def harmless(data: bytes) -> bool:
    """Return whether no cell except for numbers starts like a formula."""
    cells = [cell for row in csv.reader(io.StringIO(data.decode(), newline="")) for cell in row]
    return not any(c[:1] in set("=+-@＝＋－＠\t\r\n") and c and not NUMBER.fullmatch(c) for c in cells)


@settings(max_examples=10)  # each starts a reader
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=15), TITLE)
def test_no_text_is_a_formula_and_all_come_back(rows: list[tuple[str, str]], title: str) -> None:
    name = title or "a"
    data = csv_bytes(pd.DataFrame([("x", *row) for row in rows], columns=["id", name, "b"]))
    assert harmless(data)
    cells = list(csv.reader(io.StringIO(data.decode(), newline="")))
    for saved in (data, xlsx({"A": cells})):
        table = read_tabular("f", saved)
        assert list(table.titles.values()) == ["id", name, "b"]
        back = list(zip(table.text(column_key(name)), table.text("b"), strict=True))
        assert [tuple(map(_lines, row)) for row in back] == [tuple(map(_lines, row)) for row in rows]


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def test_routes_are_harmless_and_can_be_sent_again(tmp_path: Path) -> None:
    store, names = Store.open(tmp_path), Addresses(IDS)
    save_city(store, "town", CITY, names)
    orders = [Order(customer=name, demand=2) for name in IDS[1:]]
    planned = plan_day(store, Request(orders, "town", capacity=9), SolveSpec(samples=0, time_limit=1))
    write_day(Place(store, "day"), solve_day(store, planned, 0.0))
    routes = store.get("day/routes.csv")
    assert harmless(routes)
    begin = read_start(store, "store:day/routes.csv", CITY, names, planned.day.instance)
    assert f"has {len(orders)} of {len(orders)} customers" in begin.note
    table = read_tabular("r", routes).frame
    table = table[table["customer"] != "Depot"][["route", "stop", "customer", "demand"]]
    town = StoredCity("town", CITY, names, "imported")
    night = table.assign(date="2026-02-26", capacity="9", **{"=note": "@x"})
    store.put("incoming/day.csv", csv_bytes(night))
    assert take_routes(store, town, today=TODAY).days == ("2026-02-26",)


@pytest.mark.parametrize("number", ["-3.5", "+3", "1e-5"])
def test_numbers_stay(number: str) -> None:
    data = csv_bytes(pd.DataFrame({"text": [number], "number": [np.float64(number)]}))
    assert data == f"text,number\n{number},{float(number)}\n".encode()


def test_whole_thousands_are_unclear_where_the_point_is_no_decimal_sign(tmp_path: Path) -> None:
    """In orders, capacities, histories and driven routes; with commas as separators 1.000 is 1."""

    def orders(text: str) -> Day:
        (tmp_path / "day.csv").write_text(text)
        table = read_orders(str(tmp_path / "day.csv"), Store.open(tmp_path))
        return checked_day(table, TOWN, NAMES, "town", None if "capacity" in text else 20)

    unclear = "'1.000', which may have a separator of thousands: write it without"
    with pytest.raises(McvrpError, match=f"demand is {unclear}"):
        orders("customer;demand\nC1;1.000\n")
    with pytest.raises(McvrpError, match=f"capacity is {unclear}"):
        orders("customer;demand;capacity\nC1;1;1.000\n")
    with pytest.raises(McvrpError, match=f"demand is {unclear}"):
        fitted(read_tabular("day.csv", b"demand;x\n1.000;1\n3;1\n"))
    assert orders("customer,demand\nC1,1.000\n").instance.demands.tolist() == [1]
    store = Store.open(tmp_path / "store")
    head, stop = b"date;route;stop;customer;demand;capacity\n", b"2026-02-20;a;1;C1;%b;%b\n"
    for k, cells in enumerate(((b"1.000", b"9"), (b"1", b"9.000"), (b"1", b"9"))):
        store.put(f"incoming/{k}.csv", head + stop % cells)
    taken = take_routes(store, STORED, today=TODAY)
    assert ["which may have a separator of thousands" in each for each in taken.refused] == [True, True]
    assert taken.files == ("incoming/2.csv",)


def test_a_lone_return_ends_no_row() -> None:
    """Python does not quote it in every version, but readers end the row there, and a formula may follow."""
    table = pd.DataFrame({"a": ["x\r=1+1", "z\r\n"], "b": [1, 2]})
    data = csv_bytes(table)
    assert harmless(data)
    assert read_tabular("f", data).frame["a"].tolist() == ["x\n=1+1", "z"]


def test_decimal_commas_stay() -> None:
    data = csv_bytes(pd.DataFrame({"text": ["-1,5", "-1.5", "-a"]}), Dialect(";", ","))
    assert data == b"text\n-1,5\n-1.5\n'-a\n"


NONE = ["3.0000000000000000001", "true", "True", "1_0", "0x10", "３", "٣", "inf", "nan", "--3", "1,000", "3d"]
NONE += ["9" * 19, "1e2"]


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.sampled_from(["", ".", ".0", ".000"]))
def test_a_whole_number_is_exact(number: int, end: str) -> None:
    assert whole(f"{number}{end}") == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=25, min_value=-1000, max_value=1000))
def test_nothing_is_rounded_to_a_whole_number(number: Decimal) -> None:
    assert whole(f"{number:f}") == (int(number) if number == int(number) else None)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_whole_number_is_told_by_row(text: str, tmp_path: Path) -> None:
    message = f"day.csv: row 2: demand is '{text}', not a whole number from 1 to 65,535"
    with pytest.raises(McvrpError, match=re.escape(message)):
        fitted(read_tabular("day.csv", f"demand;x\n{text};1\n3;1\n".encode()))
    (tmp_path / "day.csv").write_text(f"customer;demand\nC1;{text}\n")
    with pytest.raises(McvrpError, match=re.escape(message)):
        checked_day(read_orders(str(tmp_path / "day.csv"), Store.open(tmp_path)), TOWN, NAMES, "town", 20)
    routes = f"date;route;stop;customer;demand;capacity\n2026-02-26;a;1;C1;{text};10\n"
    with pytest.raises(McvrpError, match=re.escape(message)):
        checked_days(read_tabular("day.csv", routes.encode()), STORED, today=TODAY)


def test_truth_is_no_number() -> None:
    with pytest.raises(McvrpError, match="row 1: demand is 'True', not a whole number"):
        fitted(read_tabular("day", parquet(pd.DataFrame({"demand": [True, True]}))))
    for make in (
        lambda: Order(customer="a", demand=True),
        lambda: Order(customer="a", demand="1_0"),  # type: ignore[arg-type]
        lambda: SolveSpec(time_limit=True),
        lambda: SolveSpec(samples=True),
        lambda: SolveSpec(version=True),
        lambda: LabelSpec.model_validate({"demand": [True, 9]}),
        lambda: LabelSpec.model_validate({"count": "1_0"}),
    ):
        with pytest.raises(ValueError, match="should be a valid"):
            make()


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        (b"id,demand\na,1\n", Dialect()),
        (b"id;demand\na;1\n", Dialect(";", ",")),  # as programs save it where the comma is decimal
        (b"id;lat\na;45.7\n", Dialect(";", ".")),
        (b"id;lat;x\na;45,7;1.5\n", Dialect(";", ",")),
        (b'id\tlat\na\t"45,7"\r\n', Dialect("\t", ",")),
        (b"id\tlat\na\t45\n", Dialect("\t", ".")),
        (b"id|lat\na|48,86\n", Dialect("|", ",")),
        (b"\xef\xbb\xbfid;lat\na;1.5\n", Dialect(";", ".", "utf-8-sig")),
        ("id;name\na;Käse\n".encode("cp1252"), Dialect(";", ",", "utf-8-sig")),
        ("id,name\na,Käse\n".encode("utf-16"), Dialect(",", ".", "utf-8-sig")),
        (xlsx({"A": [["id", "lat"], ["a", "45,7"]]}), Dialect()),
    ],
)
def test_the_dialect_of_a_file_is_kept(data: bytes, dialect: Dialect) -> None:
    """CSV written in it has that dialect again, and the same cells."""
    assert read_tabular("f", data).dialect == dialect
    table = pd.DataFrame({"id": ["=a", "b;c,d\t", "é"], "length": [1.5, 2.25, -3.0]})
    written = csv_bytes(table, dialect)
    back = read_tabular("f", written)
    assert back.dialect == dialect
    assert back.frame["id"].tolist() == ["=a", "b;c,d", "é"]
    assert back.numbers("length", Faults("f")).tolist() == [1.5, 2.25, -3.0]
