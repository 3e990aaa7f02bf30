"""Tables that people bring: the same rows whatever wrote them, and one sentence for what cannot be read."""

from __future__ import annotations

import io

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.errors import McvrpError
from tasks.people_tables import read_people_table

COLUMNS = ("id", "demand")


def parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"id,demand\nA,3\nB,1.5\n",
        b"\xef\xbb\xbfid,demand\r\nA,3\r\nB,1.5\r\n",  # a spreadsheet's
        b"ID ; Demand\nA;3\nB;1,5\n",  # one of a country with decimal commas
        b"id\tdemand\nA\t 3\nB\t1.5",
        b'"id","demand"\n"A","3"\n"B","1.5"\n',
        parquet(pa.table({"id": ["A", "B"], "demand": ["3", "1.5"]})),
    ],
)
def test_the_same_rows_whatever_wrote_them(data: bytes) -> None:
    """Separators, quotes, byte-order marks, decimal commas and Parquet make no difference."""
    table = read_people_table(data, "orders", COLUMNS)
    assert table.to_dict("index") == {2: {"id": "A", "demand": "3"}, 3: {"id": "B", "demand": "1.5"}}


def test_rows_keep_the_number_of_their_line() -> None:
    """Empty lines and empty cells do not shift the numbers; short lines end with empty cells."""
    table = read_people_table(b"\nid,demand\nA,3\n\n,\nB\n", "orders", COLUMNS)
    assert table.index.tolist() == [3, 6]
    assert table.loc[6].tolist() == ["B", ""]


def test_numbers_of_parquet_are_text_too() -> None:
    """Integers, dates and missing values of typed columns."""
    days = pa.array([pd.Timestamp("2026-01-31").date(), None])
    table = read_people_table(parquet(pa.table({"id": [7, 8], "demand": days})), "orders", COLUMNS)
    assert table.values.tolist() == [["7", "2026-01-31"], ["8", ""]]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "orders.csv is empty: it needs a header with 'id', 'demand', and rows"),
        (b"\n \n", "orders.csv is empty"),
        (b"id,weight\nA,1\n", "has no column 'demand': it needs 'id', 'demand', and has 'id', 'weight'"),
        (b"id,demand,ID\nA,1,B\n", "has the column 'id' twice"),
        (b"id,demand\nA,1\nB,1,5\n", "line 3: 3 cells, the header has 2"),
        (b"id,demand\nCaf\xe9,1\n", r"no text in UTF-8 \(byte 0xe9 in line 2\)"),
        (b"id,demand\n\x00\x00,1\n", "is no text"),
        (b'id,demand\n"A,1\n', "is no CSV"),
        (parquet(pa.table({"id": ["A"], "demand": [1]}))[:-9], "is no whole Parquet file"),
        (parquet(pa.table({"id": [["A"]], "demand": [1]})), "column 'id' is of type list"),
    ],
)
def test_what_cannot_be_read_is_named(data: bytes, sentence: str) -> None:
    """One sentence that names the file, and where it can, the line or column."""
    with pytest.raises(McvrpError, match=sentence):
        read_people_table(data, "orders.csv", COLUMNS)
