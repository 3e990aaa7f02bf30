"""Numbers in user files: whole numbers are exact, and nothing else is read as one."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.importer import fitted
from mcvrp.tasks.driven.rules import check_routes
from mcvrp.tasks.files.csv_cells import whole
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.files.vrp_text import vrp_text
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.solve.orders import checked_day, read_orders
from mcvrp.tasks.solve.spec import Order, SolveSpec
from tests.support.malformed import NAMES, NODES, TODAY, TOWN, parquet

NONE = ["3.0000000000000000001", "true", "True", "1_0", "0x10", "３", "٣", "inf", "nan", "--3", "1,000", "3d"]
NONE += ["9" * 19, "1e2"]
VRP = """DIMENSION : {count}
CAPACITY : {capacity}
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 0 0
{second} 3 4
DEMAND_SECTION
1 0
2 {demand}
DEPOT_SECTION
1
-1
EOF
"""


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
    with pytest.raises(
        McvrpError, match=rf"day\.csv: row 2: demand '{text}' is (not a whole number|more than)"
    ):
        checked_day(read_orders(str(tmp_path / "day.csv"), Store.open(tmp_path)), TOWN, NAMES, "town", 20)
    cells = ["2026-02-26", "a", "1", "C1", text, "10"]
    columns = ["date", "route", "stop", "customer", "demand", "capacity"]
    rows = pd.DataFrame([cells], columns=columns, index=[2], dtype="string")
    [reason] = check_routes(rows, TOWN, NODES, today=TODAY).rejected["reason"]
    assert reason == f"demand '{text}' is not a whole number from 1 to 65,535"


@pytest.mark.parametrize("text", NONE)
@pytest.mark.parametrize("field", ["count", "capacity", "second", "demand"])
def test_an_instance_s_numbers_are_exact(text: str, field: str) -> None:
    sound = {"count": "2", "capacity": "10", "second": "2", "demand": "3"}
    vrp_text("a.vrp", VRP.format(**sound).encode())
    with pytest.raises(McvrpError, match=r"^a\.vrp"):
        vrp_text("a.vrp", VRP.format(**{**sound, field: text}).encode())


def test_truth_is_no_number() -> None:
    with pytest.raises(McvrpError, match="row 1: demand is 'True', not a whole number"):
        fitted(read_tabular("day", parquet(pd.DataFrame({"demand": [True, True]}))))
    for make in (
        lambda: Order(customer="a", demand=True),
        lambda: Order(customer="a", demand="1_0"),  # type: ignore[arg-type]
        lambda: SolveSpec(time_limit=True),
        lambda: SolveSpec(samples=True),
        lambda: SolveSpec(version=True),
        lambda: LabelSpec(demand=[True, 9]),  # type: ignore[arg-type]
        lambda: LabelSpec(count="1_0"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match="should be a valid"):
            make()
    assert SolveSpec(hgs=True).hgs is True
