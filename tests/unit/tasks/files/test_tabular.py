"""Tables: separators of CSV, ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files.csv_cells import Dialect, csv_bytes
from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import Tabular, read_tabular
from tests.support.malformed import parquet
from tests.support.workbook import xlsx

ROWS = "id;lat\nA1;48,86\nA2;48,85\n"


@pytest.mark.parametrize(
    "data",
    [
        b"sep=;\n" + ROWS.encode(),
        b"\xef\xbb\xbfsep=;\r\n" + ROWS.replace("\n", "\r\n").encode(),  # as Excel saves it
        f'"SEP=;"\n{ROWS}'.encode(),
        f"sep=;\n{ROWS}".encode("utf-16"),
        b"SEP=,\nid,lat\nA1,48.86\nA2,48.85\n",
        b"sep=|\n" + ROWS.replace(";", "|").encode(),
        b"sep=\t\n" + ROWS.replace(";", "\t").encode(),
        ROWS.replace(";", "|").encode(),
    ],
)
def test_excels_line_with_the_separator_is_no_row(data: bytes) -> None:
    """It declares the separator, and rows are numbered as Excel shows them; pipes separate, too."""
    table = read_tabular("f", data)
    assert list(table.frame.columns) == ["id", "lat"]
    assert table.text("id").tolist() == ["A1", "A2"]
    assert table.rows.tolist() == [2, 3]


def test_a_declared_separator_is_used_or_refused() -> None:
    """Also if another one is more frequent in the header; one that is not supported is named."""
    assert list(read_tabular("f", b"sep=;\na,b,c;d\n1,2,3;4\n").frame.columns) == ["a,b,c", "d"]
    with pytest.raises(McvrpError, match="f is separated by ':', as its first line declares: save it with"):
        read_tabular("f", b"sep=:\nid:lat\nA1:1\n")
    with pytest.raises(McvrpError, match="f is empty"):
        read_tabular("f", b"sep=;\n")


def test_a_file_with_pipes_is_written_with_pipes() -> None:
    table = read_tabular("f", b"id|lat\nA1|48,86\n")
    assert table.dialect == Dialect("|", ",")
    assert read_tabular("f", csv_bytes(table.frame, table.dialect)).frame.equals(table.frame)


def test_ids_and_titles_are_compared_in_composed_form() -> None:
    """An é of two characters is the é of one; other text stays as it is."""
    table = read_tabular("f", "Code-Cafe\u0301;note\nThe\u0301-1;Cafe\u0301\n".encode())
    table = table.calling({"id": "code caf\u00e9"})
    column = table.column("id")
    assert column == "code-caf\u00e9"
    assert table.ids(column).tolist() == ["Th\u00e9-1"]
    assert table.text("note").tolist() == ["Cafe\u0301"]
    with pytest.raises(McvrpError, match="two columns named caf\u00e9"):
        read_tabular("f", "caf\u00e9;cafe\u0301\n1;2\n".encode())


def _faults(table: Tabular, known: Sequence[str]) -> str:
    faults = Faults("f")
    table.refuse_unpadded("id", known, faults)
    try:
        faults.check()
    except McvrpError as error:
        return str(error)
    return ""


UNCLEAR = "f: row 2: id is the number 7, which may be shown as '007', an id of its own: write ids as text"


def test_a_number_that_may_be_shown_with_zeros_is_unclear() -> None:
    """In a spreadsheet, Parquet, or a table of Python, if an id has these zeros; never in text, as of CSV."""
    sheet, known = read_tabular("f", xlsx({"S": [[None, "id"], [None, 7], [None, "A"]]})), ["7", "007"]
    assert _faults(sheet, known) == _faults(sheet, ["007"]) == UNCLEAR
    assert _faults(sheet, ["7", "0070", "A07", "0"]) == ""
    for ids, message in (([7, 8], UNCLEAR), ([7.0, None], UNCLEAR), ([7, "A"], UNCLEAR), (["7", None], "")):
        frame = pd.DataFrame({"id": pd.Series(ids)})
        assert _faults(Tabular("f", frame, np.array([2, 3])), known) == message
    stored = read_tabular("f", parquet(pd.DataFrame({"id": [1, 7]})))
    assert _faults(stored, known) == UNCLEAR
    assert _faults(read_tabular("f", xlsx({"S": [["id", "n"], ["7", 1]]})), known) == ""
    assert _faults(read_tabular("f", b"id,n\n7,1\n"), known) == ""
