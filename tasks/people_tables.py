"""Tables that people bring, CSV or Parquet, as text: what a cell means is for its reader to say."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from model.errors import McvrpError, reason

_SEPARATORS = ",;\t|"
_PARQUET = b"PAR1"
_FIRST_LINE = 2  # below the header


def read_people_table(data: bytes, name: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a table as text, "" where a cell is empty; the index is the line in the file.

    Separators may be commas, semicolons, tabs or bars; with anything but commas, numbers may have a
    decimal comma. Names of columns are taken in lower case. Empty lines are left out. Lines of
    Parquet are counted as if it had a header.

    Parameters
    ----------
    data
        The bytes of the file.
    name
        Of the file, for people.
    columns
        Those that have to be there.

    Raises
    ------
    McvrpError
        If the file is empty, is neither CSV in UTF-8 nor Parquet, lacks a column, has one
        twice, or a line with more cells than the header.
    """
    if not data.strip():
        raise McvrpError(f"{name} is empty: it needs a header with {_listed(columns)}, and rows")
    table = _parquet(data, name) if data.startswith(_PARQUET) else _csv(data, name)
    table.columns = [str(column).strip().lower() for column in table.columns]
    twice = sorted({column for column in table.columns if list(table.columns).count(column) > 1})
    if twice:
        raise McvrpError(f"{name} has the column {twice[0]!r} twice: rename one of them")
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise McvrpError(
            f"{name} has no column {_listed(missing)}: it needs {_listed(columns)}, and has "
            f"{_listed(list(table.columns)) or 'none'}"
        )
    return table[(table != "").any(axis=1)]


def _csv(data: bytes, name: str) -> pd.DataFrame:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise McvrpError(
            f"{name} is no text in UTF-8 (byte {data[error.start]:#04x} in line {line}): "
            "save it as CSV in UTF-8"
        ) from None
    if "\0" in text:
        raise McvrpError(f"{name} is no text: save it as CSV in UTF-8")
    header = text.lstrip().splitlines()[0]
    separator = max(_SEPARATORS, key=header.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise McvrpError(f"{name} is no CSV ({error}): look for a quotation mark without its twin") from None
    first = next(k for k, line in enumerate(lines) if any(line))
    names, rows = lines[first], lines[first + 1 :]
    for k, row in enumerate(rows, start=first + _FIRST_LINE):
        if len(row) > len(names):
            raise McvrpError(f"{name}, line {k}: {len(row)} cells, the header has {len(names)}")
    whole = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    frame = pd.DataFrame(whole, columns=names, dtype="string")
    frame.index = pd.RangeIndex(first + _FIRST_LINE, first + _FIRST_LINE + len(frame))
    frame = frame.apply(lambda column: column.str.strip())
    if separator != ",":
        frame = frame.apply(lambda column: column.str.replace(r"^(-?\d+),(\d+)$", r"\1.\2", regex=True))
    return frame


def _parquet(data: bytes, name: str) -> pd.DataFrame:
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise McvrpError(f"{name} is no whole Parquet file ({reason(error)}): write it again") from None
    columns = {}
    for k, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise McvrpError(
                f"{name}: column {field.name!r} is of type {field.type}, which is no text or number"
            )
        columns[k] = table.column(k).cast(pa.string()).to_pandas().astype("string").fillna("").str.strip()
    frame = pd.DataFrame(columns)
    frame.columns = pd.Index(table.column_names)
    frame.index = pd.RangeIndex(_FIRST_LINE, _FIRST_LINE + len(frame))
    return frame


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
