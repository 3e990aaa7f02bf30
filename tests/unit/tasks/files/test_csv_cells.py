"""CSV for spreadsheets: no cell is a formula, and every text survives a round trip."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, StoredCity, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.driven.take import take_routes
from mcvrp.tasks.files.csv_cells import NUMBER, csv_bytes
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.solve.day import plan_day, solve_day
from mcvrp.tasks.solve.outputs import Place, write_day
from mcvrp.tasks.solve.spec import Order, SolveSpec
from mcvrp.tasks.solve.start import read_start
from tests.support.malformed import TODAY, parquet
from tests.support.workbook import xlsx

TITLE = st.text(st.sampled_from("'=+-@＝1a"), max_size=6)
IDS = ("Depot", "=1+1", "+x", "-2+3", "@SUM(1)", "'=a", "-3.5", "+41791234567", "'quoted'", "C'1")
CITY = City.uniform(len(IDS) - 1, seed=1)
TEXT = st.text(st.sampled_from("'=+-@＝1a. ,;\"\n\t"), max_size=6).map(str.strip)


def harmless(data: bytes) -> bool:
    """Return whether no cell except for numbers starts like a formula."""
    cells = [cell for row in csv.reader(io.StringIO(data.decode(), newline="")) for cell in row]
    return not any(c[:1] in set("=+-@＝＋－＠\t\r\n") and c and not NUMBER.fullmatch(c) for c in cells)


@settings(max_examples=25)  # each starts a reader
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), TITLE)
def test_no_text_is_a_formula_and_all_come_back(rows: list[tuple[str, str]], title: str) -> None:
    """Cells and titles, by CSV and by the same table saved as a spreadsheet."""
    name = title or "a"
    data = csv_bytes(pd.DataFrame([("x", *row) for row in rows], columns=["id", name, "b"]))
    assert harmless(data)
    cells = list(csv.reader(io.StringIO(data.decode(), newline="")))
    for saved in (data, xlsx({"A": cells})):
        found = read_tabular("f", saved)
        assert list(found.frame.columns) == ["id", name, "b"]
        back = list(zip(found.text(name), found.text("b"), strict=True))
        assert [tuple(map(_lines, row)) for row in back] == [tuple(map(_lines, row)) for row in rows]


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def test_routes_and_quarantine_are_harmless_and_can_be_sent_again(tmp_path: Path) -> None:
    """With formulas as ids, routes.csv is a start for another day, a corrected quarantine is ingested."""
    store, names = Store.open(tmp_path), Addresses(IDS)
    save_city(store, "town", CITY, names)
    orders = [Order(customer=name, demand=2) for name in IDS[1:]]
    planned = plan_day(store, "town", "none", orders, 9, SolveSpec(samples=0, time_limit=0.1, hgs=False))
    write_day(Place(store, "day"), solve_day(store, planned, 0.0))
    routes = store.get("day/routes.csv")
    assert harmless(routes)
    begin = read_start(store, "store:day/routes.csv", CITY, names, planned.day.instance)
    assert f"has {len(orders)} of {len(orders)} customers" in begin.note
    table = read_tabular("r", routes).frame
    table = table[table["customer"] != "Depot"][["route", "stop", "customer", "demand"]]
    table = table.assign(date="2026-02-26", capacity=9)
    town = StoredCity("town", CITY, names, "imported")
    night = table.assign(date="=cmd|' /C calc'!A0", **{"=note": "@x"})
    store.put("incoming/bad.parquet", parquet(night))
    [receipt] = take_routes(store, town, today=TODAY).receipts
    assert receipt.rejected == len(orders)
    data = store.get(f"driven/town/quarantine/{receipt.key}.csv")
    assert harmless(data)
    store.put("incoming/again.csv", data.replace(b"'=cmd|' /C calc'!A0", b"2026-02-26"))
    [receipt] = take_routes(store, town, today=TODAY).receipts
    assert (receipt.rejected, receipt.days) == (0, ("2026-02-26",))


@pytest.mark.parametrize("number", ["-3.5", "+3", "1e-5"])
def test_numbers_stay(number: str) -> None:
    data = csv_bytes(pd.DataFrame({"text": [number], "number": [np.float64(number)]}))
    assert data == f"text,number\n{number},{float(number)}\n".encode()
