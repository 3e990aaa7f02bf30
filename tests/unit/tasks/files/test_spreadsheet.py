"""Spreadsheets: read like the same table in CSV, with sheet and row in error messages."""

from __future__ import annotations

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.spreadsheet import read_sheet
from mcvrp.tasks.files.tabular import read_tabular
from tests.support.workbook import DAY, SHEET, edited, ods, with_state, xlsx

ORDERS = [["Customer", "Demand"], ["C1", 3], [None, None], [7, 4.0], ["C2", "5"]]


def test_a_sheet_is_the_table_that_its_csv_is() -> None:
    table = read_tabular("monday.xlsx", xlsx({"Orders": ORDERS}))
    csv = read_tabular("monday.csv", b"Customer,Demand\nC1,3\n,\n7,4\nC2,5\n")
    assert table.frame.equals(csv.frame)
    assert table.rows.tolist() == csv.rows.tolist() == [2, 4, 5]
    assert (table.name, table.notes) == ("monday.xlsx, sheet 'Orders'", ())
    data = xlsx({"S": [[(DAY, 46053), (DAY, 46053.5), 0.1, True, " é "]]})
    assert read_sheet("a.xlsx", data).csv == "2026-01-31,2026-01-31 12:00:00,0.1,True,é\r\n"


@pytest.mark.parametrize("text", ["1.234", "1,234"])
def test_text_that_may_have_thousands_is_refused(text: str) -> None:
    """Whatever the numbers beside it have: their point is Excel's own. As numbers they are clear."""
    rows = [["id", "cost"], ["a", text], ["b", 1.5]]
    table, faults = read_tabular("a.xlsx", xlsx({"S": rows[:2] if "," in text else rows})), Faults("a.xlsx")
    table.numbers("cost", faults)
    with pytest.raises(McvrpError, match=f"row 2: cost is '{text}', which may have a separator of thousands"):
        faults.check()
    rows[1] = ["a", 1.234]
    assert read_tabular("a.xlsx", xlsx({"S": rows})).numbers("cost", Faults("a")).tolist() == [1.234, 1.5]


def test_rows_are_counted_as_the_sheet_shows_them() -> None:
    data = xlsx({"Orders": [[], ["customer", "demand"], [], ["C1", "many"]]})
    table = read_tabular("monday.xlsx", data)
    faults = Faults(table.name)
    table.numbers("demand", faults)
    with pytest.raises(McvrpError, match=r"monday\.xlsx, sheet 'Orders': row 4: demand is 'many', not a"):
        faults.check()


def test_of_several_sheets_the_first_is_read() -> None:
    """Of a day's routes, the stops."""
    routes = read_tabular("a.xlsx", xlsx({"Overview": [["a"], [1]], "Route 1": [["b"]], "Stops": ORDERS}))
    assert (routes.name, routes.notes) == ("a.xlsx, sheet 'Stops'", ())
    two = read_tabular("a.xlsx", xlsx({"Orders": ORDERS, "Prices": [["a"], [1]]}))
    assert two.notes == ("only sheet 'Orders' of a.xlsx was read (--sheet chooses one)",)


def test_a_sheet_is_chosen_by_its_title() -> None:
    """Also a hidden one; that others are not read is then no news."""
    data = xlsx({"Prices": [["a"], [1]], "Aufträge": ORDERS, "Empty": []})
    for workbook in (data, with_state(data, "Aufträge", "hidden")):
        table = read_tabular("a.xlsx", workbook, "Aufträge")
        assert (table.name, table.notes, len(table)) == ("a.xlsx, sheet 'Aufträge'", (), 3)
    with pytest.raises(McvrpError, match="no sheet 'Orders': name one of 'Prices', 'Aufträge' and 'Empty'"):
        read_tabular("a.xlsx", data, "Orders")
    with pytest.raises(McvrpError, match="no content in sheet 'Empty'"):
        read_tabular("a.xlsx", data, "Empty")
    with pytest.raises(McvrpError, match=r"a\.csv is not a workbook"):
        read_tabular("a.csv", b"a\n1\n", "Orders")


def test_a_hidden_sheet_is_not_read_before_a_visible_one() -> None:
    data = with_state(xlsx({"Secret": [["a"], [1]], "Orders": ORDERS}), "Secret", "veryHidden")
    table = read_tabular("a.xlsx", data)
    assert (table.name, table.notes) == ("a.xlsx, sheet 'Orders'", ())


def _merged(area: str) -> bytes:
    end, tag = b"</sheetData>", f'<mergeCells count="1"><mergeCell ref="{area}"/></mergeCells>'.encode()
    return edited(xlsx({"Orders": ORDERS}), {SHEET: lambda text: text.replace(end, end + tag)})


def _ods(*texts: str) -> bytes:
    tag = 'table:table-cell office:value-type="string"'
    cells = (f"<{tag}><text:p>{text}</text:p></table:table-cell>" for text in texts)
    return ods({"Orders": "".join(f"<table:table-row>{cell}</table:table-row>" for cell in cells)})


@pytest.mark.parametrize("data", [_merged("A2:B2"), _ods("customer", "C1")], ids=["merged columns", "ods"])
def test_other_workbooks_are_read(data: bytes) -> None:
    assert read_tabular("a", data).text("customer")[0] == "C1"


REFUSED = {
    "cut": (xlsx({"Orders": ORDERS})[:-400], "is not a valid spreadsheet"),
    "old": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "is not a valid spreadsheet"),
    "empty": (xlsx({"Orders": [], "More": [["a"]]}), "has no content in sheet 'Orders': name another"),
    "header": (xlsx({"Orders": [["customer", "demand"]]}), ", sheet 'Orders' has no rows, only a header"),
    "twice": (xlsx({"Orders": [["a", "a"], [1, 2]]}), ", sheet 'Orders' has two columns named a"),
    "text": (b"id,x,y\n1,2,3\n", "is not a spreadsheet, only named like one"),
    "title": (
        xlsx({"Orders": [[], ["Monday"], [], *ORDERS]}),
        ", sheet 'Orders': row 4 has 'Demand' in a column without a header",
    ),
    "stray": (
        xlsx({"O": [["a", "b"], [1, 2, 3]]}),
        ", sheet 'O': row 2 has '3' in a column without a header",
    ),
    # all rows but the first would lack the content, such as the mark of kept stops
    "merged": (_merged("B2:B3"), "has cells that are merged over rows 2 to 3 of sheet 'Orders'"),
}


@pytest.mark.parametrize(("data", "part"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_table_is_reported_in_one_sentence(data: bytes, part: str) -> None:
    with pytest.raises(McvrpError) as raised:
        read_tabular("a.xlsx", data)
    text = str(raised.value)
    assert text.startswith(("a.xlsx " + part, "a.xlsx" + part))
    assert "\n" not in text
    assert len(text) <= 300
