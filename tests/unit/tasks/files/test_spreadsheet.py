"""Spreadsheets: read like the same table in CSV, with sheet and row in error messages."""

from __future__ import annotations

import numpy as np
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.spreadsheet import first_sheet
from mcvrp.tasks.files.tabular import read_tabular
from tests.support.workbook import DAY, edited, ods, with_state, xlsx

ORDERS = [["Customer", "Demand"], ["C1", 3], [None, None], [7, 4.0], ["C2", "5"]]


def test_a_sheet_is_the_table_that_its_csv_is() -> None:
    table = read_tabular("monday.xlsx", xlsx({"Orders": ORDERS}))
    csv = read_tabular("monday.csv", b"Customer,Demand\nC1,3\n,\n7,4\nC2,5\n")
    assert table.frame.equals(csv.frame)
    assert table.rows.tolist() == csv.rows.tolist() == [2, 4, 5]
    assert (table.name, table.notes) == ("monday.xlsx, sheet 'Orders'", ())
    data = xlsx({"S": [[(DAY, 46053), (DAY, 46053.5), 0.1, True, " é "]]})
    cells = [column.to_pylist() for column in first_sheet("a.xlsx", data).cells.columns]
    assert cells == [["2026-01-31"], ["2026-01-31 12:00:00"], ["0.1"], ["True"], ["é"]]


def test_rows_are_counted_as_the_sheet_shows_them() -> None:
    data = xlsx({"Orders": [[], ["customer", "demand"], [], ["C1", "many"]]})
    table = read_tabular("monday.xlsx", data)
    faults = Faults(table.name)
    table.numbers("demand", faults)
    with pytest.raises(McvrpError, match=r"monday\.xlsx, sheet 'Orders': row 4: demand is 'many', not a"):
        faults.check()


def test_of_several_sheets_the_first_with_content_is_read() -> None:
    one = read_tabular("a.xlsx", xlsx({"Empty": [], "Orders": ORDERS}))
    assert (one.name, one.notes) == ("a.xlsx, sheet 'Orders'", ())
    two = read_tabular("a.xlsx", xlsx({"Orders": ORDERS, "Prices": [["a"], [1]]}))
    assert two.notes == ("only sheet 'Orders' of a.xlsx was read, not 'Prices'",)


def test_a_hidden_sheet_is_not_read_before_a_visible_one() -> None:
    data = with_state(xlsx({"Secret": [["a"], [1]], "Orders": ORDERS}), "Secret", "veryHidden")
    table = read_tabular("a.xlsx", data)
    assert (table.name, table.notes) == ("a.xlsx, sheet 'Orders'", ())


@pytest.mark.parametrize("left", [0, 1], ids=["first", "empty"])
@pytest.mark.parametrize("column", "AB")
def test_merged_rows_are_refused_if_they_have_content(column: str, left: int) -> None:
    """All rows but the first would lack it, such as the mark of kept stops. Other merged cells are fine.

    So it is if columns on the left are empty.
    """
    column = chr(ord(column) + left)

    def merged(area: str) -> bytes:
        end, tag = b"</sheetData>", f'<mergeCells count="1"><mergeCell ref="{area}"/></mergeCells>'.encode()
        rows = [["kept", "customer"], ["yes", "C1"], [None, "C2"], ["", ""], ["", ""]]
        data = xlsx({"Orders": [[None] * left + row for row in rows]})
        return edited(data, {"xl/s1.xml": lambda text: text.replace(end, end + tag)})

    for area in (f"{column}4:{column}5", f"{column}2:{chr(ord(column) + 1)}2"):
        assert len(read_tabular("day.xlsx", merged(area))) == 2
    with pytest.raises(McvrpError, match="merged over rows 2 to 3 of sheet 'Orders': split"):
        read_tabular("day.xlsx", merged(f"{column}2:{column}3"))


def test_merged_rows_of_ods_are_refused_alike() -> None:
    """In the sheet that is read, also after repeated rows and columns."""

    def cell(text: str, rows: int = 1) -> str:
        span = f'table:number-rows-spanned="{rows}" office:value-type="string"'
        return f"<table:table-cell {span}><text:p>{text}</text:p></table:table-cell>"

    def sheet(rows: int, text: str) -> str:
        left = '<table:table-cell table:number-columns-repeated="2"/>'
        lines = cell("customer") + cell("kept"), cell("C1") + cell(text, rows), cell("C2")
        body = "".join(f"<table:table-row>{left}{line}</table:table-row>" for line in lines)
        return f'<table:table-row table:number-rows-repeated="4"/>{body}'

    for rows, text in ((1, "yes"), (2, "")):
        data = ods({"Orders": sheet(rows, text), "Later": sheet(2, "yes")})
        assert len(read_tabular("day.ods", data)) == 2
    with pytest.raises(McvrpError, match="'yes' merged over rows 6 to 7 of sheet 'Orders': split"):
        read_tabular("day.ods", ods({"Orders": sheet(2, "yes")}))


def test_many_cells_come_in_order() -> None:
    numbers = np.arange(60_000)
    table = read_tabular("a.xlsx", xlsx({"S": [["a", "b"], *([k, f"x{k}"] for k in range(60_000))]}))
    assert np.array_equal(table.numbers("a", Faults(table.name)), numbers)
    assert table.text("b").tolist() == [f"x{k}" for k in range(60_000)]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (xlsx({"Orders": ORDERS})[:-400], "not a valid spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "not a valid spreadsheet"),
        (xlsx({"Orders": [], "More": [[None]]}), "no visible sheet with content"),
        (xlsx({"Orders": [["customer", "demand"]]}), "sheet 'Orders' has no rows, only a header"),
        (xlsx({"Orders": [["a", "a"], [1, 2]]}), "two columns named a"),
        (xlsx({"Orders": [["a", None], [1, 2]]}), "row 2 has '2' in a column without a header"),
    ],
    ids=["cut", "old", "empty", "header", "twice", "stray"],
)
def test_an_invalid_table_is_reported_in_one_sentence(data: bytes, part: str) -> None:
    with pytest.raises(McvrpError) as raised:
        read_tabular("a.xlsx", data)
    text = str(raised.value)
    assert text.startswith("a.xlsx")
    assert part in text
    assert "\n" not in text
    assert len(text) <= 300
