"""A table that people bring, CSV or Parquet, as rows of text: which kind it is, is seen from its bytes.

Knows nothing of orders. A row keeps the number that its file's own programs show.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from model.errors import McvrpError, reason

_LARGEST = 256 << 20  # bytes; a day's orders are a thousandth of it
_SIGNS = {
    b"PK\x03\x04": "an Excel workbook or another zip file: save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save it as CSV",
    b"\x1f\x8b": "compressed (gzip): unpack it",
    b"%PDF": "a PDF",
}
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Row:
    """One row: its number in the file, and a cell for each column, "" where there is nothing."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """What a file holds: the names of its columns in small letters with "_" for spaces, and its rows."""

    source: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def cells(self, column: str) -> list[str]:
        """Return the cells of ``column``, one a row."""
        place = self.columns.index(column)
        return [row.cells[place] for row in self.rows]


def read_table(data: bytes, source: str) -> Table:
    """Return the table that ``data`` holds, Parquet or CSV with a header.

    CSV is UTF-8 (or UTF-16 with its mark); its cells are separated by commas, semicolons, tabs or
    bars. Rows without any cell are left out.

    Parameters
    ----------
    source
        Name of the file, for messages.

    Raises
    ------
    McvrpError
        If it is empty, neither of the two, or its rows do not fit its header.
    """
    if len(data) > _LARGEST:
        raise McvrpError(f"{source} has {len(data):,} bytes: more than {_LARGEST:,} are no table of a day")
    if not data.strip():
        raise McvrpError(f"{source} is empty: it needs a header and rows")
    for sign, words in _SIGNS.items():
        if data.startswith(sign):
            raise McvrpError(f"{source} is {words}")
    table = _parquet(data, source) if data.startswith(b"PAR1") else _csv(_text(data, source), source)
    twice = sorted({name for name in table.columns if table.columns.count(name) > 1})
    if twice:
        raise McvrpError(f"{source} has two columns {twice[0]!r}: leave one")
    return table


def table_of(records: Sequence[dict[str, object]], source: str) -> Table:
    """Return ``records`` as a table; their keys are the columns, in the order in which they first appear."""
    names = dict.fromkeys(key for record in records for key in record)
    rows = (Row(k, tuple(_cell(r.get(name)) for name in names)) for k, r in enumerate(records, start=1))
    return Table(source, tuple(map(_name, names)), tuple(rows))


def _text(data: bytes, source: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in data:
        raise McvrpError(f"{source} is neither text nor Parquet: save it as CSV")
    else:
        encoding = "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise McvrpError(f"row {line} of {source} is not UTF-8: save it as CSV UTF-8") from error


def _csv(text: str, source: str) -> Table:
    lines = io.StringIO(text, newline="")
    first = text.lstrip("\r\n").splitlines()[0]
    delimiter = max(_DELIMITERS, key=first.count)  # of equals the comma
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] = []
    rows = []
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            if not header:
                header = cells
                continue
            spare = cells[len(header) :]
            if any(spare):
                raise McvrpError(
                    f"row {reader.line_num} of {source} has {len(cells)} cells, its header has {len(header)}: "
                    "put cells that hold the separator in quotes"
                )
            cells += [""] * (len(header) - len(cells))
            rows.append(Row(reader.line_num, tuple(cells[: len(header)])))
    except csv.Error as error:
        raise McvrpError(f"row {reader.line_num} of {source} is no CSV ({error})") from error
    while header and not header[-1] and not any(row.cells[len(header) - 1] for row in rows):
        header.pop()  # what spreadsheets leave behind
    rows = [Row(row.number, row.cells[: len(header)]) for row in rows]
    return Table(source, tuple(map(_name, header)), tuple(rows))


def _parquet(data: bytes, source: str) -> Table:
    try:
        table = pq.read_table(io.BytesIO(data))
        columns = [column.to_pylist() for column in table.columns]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise McvrpError(f"{source} is no whole Parquet file ({reason(error)}): write it again") from error
    rows = zip(*columns, strict=True)
    return Table(
        source,
        tuple(map(_name, table.column_names)),
        tuple(Row(k, tuple(map(_cell, row))) for k, row in enumerate(rows, start=1)),
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        if value != value:
            return ""  # what pandas writes where there is nothing
        return str(int(value)) if value.is_integer() else str(value)
    return str(value).strip()


def _name(column: str) -> str:
    return "_".join(column.casefold().replace("-", " ").replace("_", " ").split())
