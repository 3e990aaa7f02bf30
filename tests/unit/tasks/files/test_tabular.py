"""Tables: cells and their rows, separators and decimal signs of CSV, ids."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from tests.support.malformed import parquet

ROWS = "id;lat\nA1;48,86\nA2;48,85\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + ROWS.replace("\n", "\r\n").encode(),
        ROWS.encode("utf-16"),
        ROWS.replace(";", "\t").encode(),
        ROWS.replace(";", "|").encode(),
        b"id,lat,\nA1,48.86,\nA2,48.85,\n,,\n",  # trailing separators
    ],
)
def test_forms_of_csv_are_read(data: bytes) -> None:
    table = read_tabular("f", data)
    assert list(table.frame.columns) == ["id", "lat"]
    assert table.text("id").tolist() == ["A1", "A2"]
    assert table.rows.tolist() == [2, 3]


def test_other_text_is_windows_1252_with_a_note() -> None:
    table = read_tabular("f", "id\nCafé\n".encode("latin-1"))
    assert table.text("id").tolist() == ["Café"]
    assert [note.startswith("f is not UTF-8 and was read as Windows-1252") for note in table.notes] == [True]


def test_ids_and_titles_are_compared_in_composed_form() -> None:
    """An é of two characters is the é of one; other text stays as it is."""
    table = read_tabular("f", "Code-Cafe\u0301;note\nThe\u0301-1;Cafe\u0301\n".encode())
    table = table.calling({"id": "code caf\u00e9"})
    column = table.column("id")
    assert column == "code_caf\u00e9"
    assert table.ids(column).tolist() == ["Th\u00e9-1"]
    assert table.text("note").tolist() == ["Cafe\u0301"]


DECIMALS = {
    "D,A,1.234\nA,D,950": 1.234,  # the separator declares the sign
    "D;A;1,234\nA;D;950": 1.234,
    'D,A,"1,23"\nA,D,"1,234"': 1.23,  # one cell cannot have thousands
    "D;A;1.234\nA;D;1.5": 1.234,
    "D;A;1.234\nA;D;0.234": 1.234,
    "D\tA\t1,5e3\nA\tD\t1": 1500,
}
GROUPED = ['D,A,"1,234"\nA,D,950', 'D,A,"1,234"\nA,D,"2,000"', "D;A;1.234\nA;D;950", "D;A;1.234\nA;D;2.345"]
GROUPED += ["D\tA\t12.000\nA\tD\t7", "D\tA\t12,000\nA\tD\t7", "D|A|12,000\nA|D|7"]


def _costs(rows: str) -> Tabular:
    return read_tabular("t.csv", f"a{rows[1]}b{rows[1]}cost\n{rows}\n".encode())


@pytest.mark.parametrize(("rows", "cost"), DECIMALS.items())
def test_a_sign_that_cannot_separate_thousands_is_decimal(rows: str, cost: float) -> None:
    faults = Faults("t.csv")
    assert _costs(rows).numbers("cost", faults)[0] == cost
    faults.check()


@pytest.mark.parametrize("rows", GROUPED)
def test_a_sign_that_may_separate_thousands_is_refused(rows: str) -> None:
    """Costs would be a thousandth. Degrees are below 1,000, so that their sign is decimal."""
    table, faults, number = _costs(rows), Faults("t.csv"), rows[4:].splitlines()[0].strip('"')
    table.numbers("cost", faults)
    with pytest.raises(McvrpError, match=rf"^t.csv: row 2: cost is '{number}', which may have a separator"):
        faults.check()
    small = Faults("t.csv")
    assert table.numbers("cost", small, small=True)[0] == float(number.replace(",", "."))
    small.check()


def test_a_declared_comma_is_decimal_in_whole_numbers_too() -> None:
    """As the separator declares it: in other files it is refused."""
    faults = Faults("t.csv")
    assert _costs("D;A;2,0\nA;D;3").whole_numbers("cost", 1, 9, faults).tolist() == [2, 3]
    faults.check()


def test_cells_are_what_the_file_has() -> None:
    """Nothing is taken for a missing value, rounded, renamed, or dropped, and rows keep their numbers."""
    text = '\n\nid,note\n007,NA\n\n1e3,"ring, then\nwait"\n=1,12" pipe\n2026-1-2,"a ""b"""\nx\n'
    table = read_tabular("f.csv", b"\xef\xbb\xbf" + text.encode())
    assert table.text("id").tolist() == ["007", "1e3", "=1", "2026-1-2", "x"]
    assert table.text("note").tolist() == ["NA", "ring, then\nwait", '12" pipe', 'a "b"', ""]
    assert table.rows.tolist() == [4, 6, 7, 8, 9]


def test_typed_cells_are_text() -> None:
    """Integers with gaps are not decimal, dates have no time, and a missing cell is empty."""
    days = pd.to_datetime(["2026-01-31 00:00", "2026-01-31 12:30"])
    frame = pd.DataFrame({"id": [7, None], "x": [0.1, 2**60], "day": days, "b": [True, None]})
    frame["kind"] = pd.Categorical(["a", None])
    for table in (read_tabular("f", parquet(frame)), Tabular.of("f", frame)):
        assert table.text("id").tolist() == ["7", ""]
        assert table.text("day").tolist() == ["2026-01-31", "2026-01-31 12:30:00"]
        assert table.text("b").tolist() == ["True", ""]
        assert table.text("kind").tolist() == ["a", ""]
        assert table.numbers("x", Faults("f")).tolist() == [0.1, 2.0**60]
        assert table.rows.tolist() == [1, 2]


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "f.csv is empty"),
    "lines": (b"\n\n", "f.csv is empty"),
    "a byte order mark": (b"\xff\xfe", "f.csv is empty"),
    "separators": (b",,\n,\n", "f.csv is empty"),
    "Excel's own line": (
        b"sep=;\nid;lat\nA1;1\n",
        "f.csv: row 2 has 'lat' in a column without a header in row 1",
    ),
    "a title above": (
        b"\nMonday\n\nid,lat\n1,2\n",
        "f.csv: row 4 has 'lat' in a column without a header in row 2",
    ),
    "a header": (b"a,b\n", "f.csv has no rows, only a header (a and b)"),
    "a title twice": (b"Lat,lat\n1,2\n", "f.csv has two columns named Lat and lat: keep one"),
    "forms of a title": ("caf\u00e9;cafe\u0301\n1;2\n".encode(), "f.csv has two columns named caf\u00e9"),
    "long rows": (
        b"a,b\n1,2,\n\n1,2,3\n4,5,,6\n",
        "f.csv: row 4 has '3' in a column without a header in row 1; row 5",
    ),
    "no title": (b"a,,b\n1,2,3\n", "f.csv: row 2 has '2' in a column without a header"),
    "an open mark": (b'a,b\n1,"x\n2,y\n', "f.csv is not valid CSV in lines 2 to 3"),
    "two open marks": (b'a,b\n1,"a\nb"\n2,"c\n3,"d\n', "f.csv is not valid CSV in lines 4 to 5"),
    "a mark inside": (b'a,b\n1,"Shop" north\n', "f.csv is not valid CSV in line 2"),
    "columns": (b"a,b\n1,2" + 999 * b"," + b"\n", "f.csv, row 2, has more than 1,000 columns"),
    "a PDF": (b"%PDF-1.4\n1 0 obj << >>\n", "f.csv is a binary file"),
    "an archive": (b"\x1f\x8b\x08\x08a,b\n", "f.csv is a binary file"),
    "a zero byte": (b"a,b\n1,\0\n", "f.csv is a binary file"),
    "no encoding": (b"a,b\n1,\x81\xff\n", "f.csv is not text (byte 6 is not UTF-8)"),
    "half of Parquet": (parquet(pd.DataFrame({"a": [1]}))[:-20], "f.csv is not a valid Parquet file"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_table_is_refused_by_its_row(data: bytes, message: str) -> None:
    with pytest.raises(McvrpError) as raised:
        read_tabular("f.csv", data)
    assert str(raised.value).startswith(message)


WRONG = {  # cells of a column of numbers, and the message
    "": "f: row 2: N is missing",
    "many": "f: row 2: N is 'many', not a number",
    "1e400": "f: row 2: N is '1e400', not a number",
    "inf": "f: row 2: N is 'inf', not a number",
    "1.234,5": "f: row 2: N is '1.234,5', not a number",
    "1_0": "f: row 2: N is '1_0', not a number",
    "1,5": "f: column N has decimal commas (row 2: 1,5) and points (row 3: 1.5): use one of them",
}


@pytest.mark.parametrize(("cell", "message"), WRONG.items())
def test_what_is_no_number_is_refused_by_its_row(cell: str, message: str) -> None:
    table, faults = read_tabular("f", f"id;N\na;{cell}\nb;1.5\n".encode()), Faults("f")
    assert np.isnan(table.numbers("n", faults)[0])
    with pytest.raises(McvrpError) as raised:
        faults.check()
    assert str(raised.value) == message
