"""Tables that people bring, CSV in whatever dialect, Excel or Parquet, and what is wrong with them, by row.

A CSV file's rows are counted as a spreadsheet shows them, and its own: the header is row 1. Of Parquet the
first row is row 1. Nothing here knows what a table is about.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.tasks.files.csv_cells import unescaped
from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.file_bytes import MOST_BYTES
from mcvrp.tasks.files.numbers import whole
from mcvrp.tasks.files.spreadsheet import first_sheet, is_spreadsheet
from mcvrp.tasks.support.text import listed

_MOST_CELLS = 20_000_000  # of a table, in all its rows
_MOST_COLUMNS = 1000
_SEPARATORS = ";\t,"
_PARQUET = b"PAR1"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_WHY = 120  # characters of what another program says
_NAMELESS = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name


@dataclass(frozen=True, eq=False)
class Tabular:
    """A table as a file has it.

    Parameters
    ----------
    name
        Of the file, for people.
    frame
        Columns by name in lower case; text is stripped, "" where there is nothing.
    rows
        The number of each row in the file, int64 ``(N,)``.
    notes
        What had to be guessed, a sentence each.
    """

    name: str
    frame: pd.DataFrame
    rows: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, *names: str) -> str | None:
        """Return the name of the column that is called one of ``names``, None where there is none.

        Raises
        ------
        McvrpError
            If several are.
        """
        there = [name for name in names if name in self.frame]
        if len(there) > 1:
            same = " and ".join(there)
            raise McvrpError(f"{self.name}: the columns {same} mean the same: keep one of them")
        return there[0] if there else None

    def text(self, name: str) -> NDArray[np.object_]:
        """Return a column as text, stripped, ``(N,)``; whole numbers without a point."""
        values = self.frame[name]
        if pd.api.types.is_float_dtype(values):
            # a column of ids with a gap is read as floats: 7.0 is the id "7", as far as floats are exact
            whole = values.notna() & (values == values.round()) & (values.abs() < 2**53)
            return np.array(
                [str(int(v)) if w else _cell(v) for v, w in zip(values, whole, strict=True)], dtype=object
            )
        return np.array([_cell(value) for value in values], dtype=object)

    def numbers(self, name: str, faults: Faults) -> NDArray[np.float64]:
        """Return a column as float64 ``(N,)``, with commas or points; NaN where ``faults`` are told why."""
        values = self.frame[name]
        if pd.api.types.is_bool_dtype(values):
            faults.add(f"column {name} holds true and false, not numbers")
            return np.full(len(self), np.nan)
        if pd.api.types.is_numeric_dtype(values):
            found = values.to_numpy(np.float64, na_value=np.nan)
            for k in np.flatnonzero(~np.isfinite(found)):
                what = "missing" if np.isnan(found[k]) else f"{found[k]}, no finite number"
                faults.at(self.rows[k], f"{name} is {what}")
            return np.where(np.isfinite(found), found, np.nan)
        text = pd.Series(self.text(name), dtype=str)
        comma = text.str.fullmatch(_COMMA.pattern)
        point = text.str.contains(".", regex=False)
        if comma.any() and (point & ~comma).any():
            a, b = int(np.flatnonzero(comma)[0]), int(np.flatnonzero(point & ~comma)[0])
            faults.add(
                f"column {name} has decimal commas (row {self.rows[a]}: {text[a]}) and points "
                f"(row {self.rows[b]}: {text[b]}): use one of them"
            )
            return np.full(len(self), np.nan)
        parsed = pd.to_numeric(text.where(~comma, text.str.replace(",", ".", regex=False)), errors="coerce")
        found = parsed.to_numpy(np.float64)
        for k in np.flatnonzero(~np.isfinite(found)):
            what = "missing" if text[k] == "" else f"{shown(text[k])}, no number"
            faults.at(self.rows[k], f"{name} is {what}")
        return np.where(np.isfinite(found), found, np.nan)

    def whole_numbers(self, name: str, low: int, high: int, faults: Faults) -> NDArray[np.int64]:
        """Return a column of whole numbers, int64 ``(N,)``; ``faults`` are told of all others."""
        text = self.text(name)
        found = [whole(cell) for cell in text]
        for k, number in enumerate(found):
            if number is None or not low <= number <= high:
                what = shown(text[k]) if text[k] else "missing"
                faults.at(self.rows[k], f"{name} is {what}, no whole number from {low} to {high:,}")
                found[k] = low
        return np.array(found, dtype=np.int64)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):  # text to whoever wrote it, though the file does not say so
        return value.decode(errors="replace").strip()
    missing = pd.api.types.is_scalar(value) and pd.isna(value)  # a list is none, whatever is in it
    return "" if missing else str(value).strip()


def read_tabular(name: str, data: bytes) -> Tabular:
    """Return the table in ``data``, the bytes of the file ``name``.

    CSV may be UTF-8 or UTF-16, with a byte order mark or not, or Windows-1252 (said so in
    ``notes``); separated by commas, semicolons or tabs. Of a spreadsheet the first visible sheet
    with content is read, and named.

    Raises
    ------
    McvrpError
        If it is no table, empty, or has rows longer than its header, all of which are named.
    ReaderStopped
        If the process that reads a spreadsheet was stopped from outside.
    """
    if data.startswith(_PARQUET):
        return _parquet(name, data)
    if is_spreadsheet(data):
        sheet = first_sheet(name, data)
        _require_size(name, sheet.cells.num_columns, sheet.cells.num_columns * sheet.cells.num_rows)
        others = f"of {name}, sheet {shown(sheet.title)} was read, not {listed(map(shown, sheet.others))}"
        notes = (others,) if sheet.others else ()
        cells = sheet.cells.to_pandas(ignore_metadata=True)
        return _cells_table(f"{name}, sheet {shown(sheet.title)}", cells, notes)
    text, told = _decoded(name, data)
    return _csv(name, text, told)


def _parquet(name: str, data: bytes) -> Tabular:
    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=_texts(data))
        _require_size(name, *_sizes(file.metadata))
        table = _written_out(name, file.read())
        frame = table.to_pandas(ignore_metadata=True)  # pandas' own may be corrupt, and hides an index
    except UNREADABLE as error:
        why = brief(reason(error), _WHY)
        raise McvrpError(f"{name} is no whole Parquet file ({why}): copy it again") from error
    frame.columns = pd.Index([_title(column) for column in frame.columns])
    frame = frame.loc[:, [not _NAMELESS.fullmatch(column) for column in frame.columns]]
    return _table(name, frame, np.arange(1, len(frame) + 1), ())


def _require_size(name: str, columns: int, cells: int, bytes_: int = 0) -> None:
    """Raise McvrpError if a table is larger than any that is meant for here: before it is made."""
    for what, count, most in (
        ("columns", columns, _MOST_COLUMNS),
        ("cells", cells, _MOST_CELLS),
        ("bytes when unpacked", bytes_, MOST_BYTES),
    ):
        if count > most:
            raise McvrpError(
                f"{name} has {count:,} {what}, a table here has {most:,} at most: leave out what is not "
                "needed, or split it"
            )


def _sizes(file: pq.FileMetaData) -> tuple[int, int, int]:
    """Return columns, cells and bytes, by the footer: a file of a few kB may hold millions of rows."""
    columns, groups = file.num_columns, [file.row_group(k) for k in range(file.num_row_groups)]
    if columns > _MOST_COLUMNS:
        return columns, 0, 0
    # the values of lists count, too
    values = sum(group.column(k).num_values for group in groups for k in range(columns))
    return columns, max(values, file.num_rows), sum(group.total_byte_size for group in groups)


def _texts(data: bytes) -> list[str]:
    """Return the columns of text, which are read as they are packed: a text that is repeated, once."""
    return [field.name for field in pq.read_schema(pa.BufferReader(data)) if _is_text(field.type)]


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return any(
        check(kind)
        for check in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    )


def _written_out(name: str, table: pa.Table) -> pa.Table:
    """Return ``table`` with its texts written out, unless that makes too much of them."""
    for place, column in enumerate(table.columns):
        if not (pa.types.is_dictionary(column.type) and _is_text(column.type.value_type)):
            continue
        lengths = (pc.take(pc.binary_length(part.dictionary), part.indices) for part in column.chunks)
        written = sum(pc.sum(length).as_py() or 0 for length in lengths)
        _require_size(name, 0, 0, written)
        table = table.set_column(place, table.column_names[place], column.cast(column.type.value_type))
    return table


def _title(column: object) -> str:
    return " ".join(str(column).lower().split())


def _decoded(name: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if data[:2] not in _UTF16 and b"\0" in data:
        raise _binary(name)
    try:
        # Windows-1252 reads nearly any bytes, so it comes last
        text = data.decode("utf-16" if data[:2] in _UTF16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError:
            raise McvrpError(
                f"{name} is no text (byte {error.start} is no UTF-8): save it as CSV in UTF-8"
            ) from None
        notes = (f"{name} is not UTF-8 and was read as Windows-1252 (Western European)",)
    if "\0" in text:
        raise _binary(name)
    return text, notes


def _binary(name: str) -> McvrpError:
    return McvrpError(f"{name} is no text but something binary: save the table as CSV in UTF-8")


def _csv(name: str, text: str, notes: tuple[str, ...]) -> Tabular:
    if not text.strip():
        raise McvrpError(f"{name} is empty: write a header and rows")
    head = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(_SEPARATORS, key=head.count)
    try:
        widths = [len(cells) for cells in csv.reader(io.StringIO(text, newline=""), delimiter=separator)]
        widest = max(widths)
        if widest > _MOST_COLUMNS:
            row = widths.index(widest) + 1
            raise McvrpError(
                f"{name} has {widest:,} columns in row {row}, a table here has {_MOST_COLUMNS:,} at most: "
                "write one row a line"
            )
        _require_size(name, widest, widest * len(widths))
        # pandas drops what is beyond the names that it is given
        raw = pd.read_csv(
            io.StringIO(text),
            sep=separator,
            header=None,
            names=range(widest),
            index_col=False,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            engine="c",
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise McvrpError(f"{name} is no CSV ({reason(error)}): save it as CSV in UTF-8") from error
    return _cells_table(name, raw.fillna("").apply(lambda column: column.str.strip()), notes)


def _cells_table(name: str, cells: pd.DataFrame, notes: tuple[str, ...]) -> Tabular:
    """Return the table in ``cells``, all text: the first row with content is the header."""
    cells = unescaped(cells)
    filled = (cells != "").to_numpy()
    lines = np.flatnonzero(filled.any(axis=1))
    if not len(lines):
        raise McvrpError(f"{name} is empty but for separators: write a header and rows")
    header, rows = np.array([_title(title) for title in cells.iloc[lines[0]]], dtype=object), lines[1:]
    titled = header != ""
    stray = filled & ~titled
    faults = Faults(name)
    for row in rows[stray[rows].any(axis=1)].tolist():
        cell = cells.iat[row, int(stray[row].argmax())]
        faults.add(f"row {row + 1} has {shown(cell)} in a column without a name", row + 1)
    faults.check()
    frame = cells.iloc[rows].loc[:, titled].reset_index(drop=True)
    frame.columns = pd.Index(header[titled])
    return _table(name, frame, rows + 1, notes)


def _table(name: str, frame: pd.DataFrame, rows: NDArray[np.int64], notes: Sequence[str]) -> Tabular:
    twice = sorted(set(frame.columns[frame.columns.duplicated()]))
    if twice:
        raise McvrpError(f"{name} has two columns named {listed(twice)}: keep one of them")
    if not len(frame):
        raise McvrpError(f"{name} has no rows, only a header ({listed(frame.columns)}): add rows")
    return Tabular(name, frame, rows, tuple(notes))
