"""Tests of spreadsheets: read as the same table in CSV is, with sheet and row where something is wrong."""

from __future__ import annotations

import io
import zipfile

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files import spreadsheet
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.spreadsheet import first_sheet
from mcvrp.tasks.files.tabular import read_tabular
from tests.support.workbook import DAY, xlsx

ORDERS = [["Customer", "Demand"], ["C1", 3], [None, None], [7, 4.0], ["C2", "5"]]


def test_a_sheet_is_the_table_that_its_csv_is() -> None:
    """Text, numbers, whole ones without a point, empty rows, dates and truth values."""
    table = read_tabular("monday.xlsx", xlsx({"Orders": ORDERS}))
    csv = read_tabular("monday.csv", b"Customer,Demand\nC1,3\n,\n7,4\nC2,5\n")
    assert table.frame.equals(csv.frame)
    assert table.rows.tolist() == csv.rows.tolist() == [2, 4, 5]
    assert (table.name, table.notes) == ("monday.xlsx, sheet 'Orders'", ())
    cells = first_sheet("a.xlsx", xlsx({"S": [[(DAY, 46053), (DAY, 46053.5), 0.1, True, " x "]]})).rows
    assert [list(row) for row in cells] == [["2026-01-31", "2026-01-31 12:00:00", "0.1", "True", "x"]]


def test_rows_are_counted_as_the_sheet_shows_them() -> None:
    """A title above and empty rows do not shift the number of a faulty row."""
    data = xlsx({"Orders": [[], ["customer", "demand"], [], ["C1", "many"]]})
    table = read_tabular("monday.xlsx", data)
    faults = Faults(table.name)
    table.numbers("demand", faults)
    with pytest.raises(McvrpError, match=r"monday\.xlsx, sheet 'Orders': row 4: demand is 'many', no number"):
        faults.check()


def test_of_several_sheets_the_first_with_content_is_read() -> None:
    """And it is said, with the names of the others; empty ones are nobody's matter."""
    one = read_tabular("a.xlsx", xlsx({"Empty": [], "Orders": ORDERS}))
    assert (one.name, one.notes) == ("a.xlsx, sheet 'Orders'", ())
    two = read_tabular("a.xlsx", xlsx({"Orders": ORDERS, "Prices": [["a"], [1]]}))
    assert two.notes == ("of a.xlsx, sheet 'Orders' was read: the others with content are 'Prices'",)


def test_what_is_small_only_while_packed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is unpacked."""
    monkeypatch.setattr(spreadsheet, "_MOST_BYTES", 1000)
    with pytest.raises(McvrpError, match=r"has 5,000 bytes when unpacked, 1,000 are the most"):
        read_tabular("a.xlsx", _zipped("xl/workbook.xml", bytes(5000)))


def _zipped(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (xlsx({"Orders": ORDERS})[:-400], "no whole spreadsheet"),
        (_zipped("notes.txt", b"hello"), "no whole spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1rest", "no whole spreadsheet"),
        (xlsx({"Orders": [], "More": [[None]]}), "a spreadsheet without content"),
        (xlsx({"Orders": [["customer", "demand"]]}), "sheet 'Orders' has no rows, only a header"),
        (xlsx({"Orders": [["a", "a"], [1, 2]]}), "two columns named a"),
        (xlsx({"Orders": [["a", None], [1, 2]]}), "row 2 has '2' in a column without a name"),
    ],
    ids=["cut", "archive", "old", "empty", "header", "twice", "stray"],
)
def test_what_is_no_table_is_said_in_one_sentence(data: bytes, said: str) -> None:
    """It names the file, and the sheet where there is one."""
    with pytest.raises(McvrpError) as raised:
        read_tabular("a.xlsx", data)
    text = str(raised.value)
    assert text.startswith("a.xlsx")
    assert said in text
    assert "\n" not in text
    assert len(text) <= 300
