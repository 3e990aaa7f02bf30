"""Tables: separators of CSV."""

from __future__ import annotations

import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.files.csv_cells import Dialect, csv_bytes
from mcvrp.tasks.files.tabular import read_tabular

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
