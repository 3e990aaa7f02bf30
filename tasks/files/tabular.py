"""Tables in CSV of any dialect, spreadsheets or Parquet, with errors by row.

Rows of CSV and spreadsheets are numbered as a spreadsheet shows them: the header is row 1. The first row of
Parquet is row 1.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.city import nfc
from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.tasks.files.csv_cells import PLAIN, Dialect, unescaped, whole
from mcvrp.tasks.files.file_bytes import MOST_BYTES, Faults
from mcvrp.tasks.files.spreadsheet import first_sheet, is_spreadsheet
from mcvrp.tasks.support.text import listed

_MOST_CELLS = 20_000_000
_MOST_COLUMNS = 1000
_SEPARATORS = ";\t,|"
_SEPARATOR_LINE = re.compile(r'(?i)"?sep=([^\r\n])"?\r?(?:\n|$)')  # of Excel, which does not show it as a row
_PARQUET = b"PAR1"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_SHORT = r"[+-]?\d{1,3}"  # a number that has no separator of thousands
_BATCH = 256  # rows
_REASON = 120  # characters of another library's message
_NAMELESS = re.compile(r"__index_level_\d+__")  # unnamed index in a Parquet file of pandas


@dataclass(frozen=True, eq=False)
class Tabular:
    name: str  # of the file, for messages
    frame: pd.DataFrame  # columns by name in lower case; text is stripped, "" if missing
    rows: NDArray[np.int64]  # row numbers in the file, (N,)
    notes: tuple[str, ...] = ()  # on guesses about the format
    titles: Mapping[str, str] = field(default_factory=dict)  # of columns, as the file has them
    called: Mapping[str, str] = field(default_factory=dict)  # column of each field with a name of its own
    dialect: Dialect = PLAIN  # of a CSV file, otherwise the default
    numeric: frozenset[int] = frozenset()  # columns of a spreadsheet with numbers, as text

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, *names: str) -> str | None:
        """Return the column of the field ``names``, called one of them unless `calling` has named another.

        None without one; McvrpError if there are several.
        """
        if own := [self.called[name] for name in names if name in self.called]:
            return own[0]
        matching = [name for name in names if name in self.frame]
        if len(matching) > 1:
            raise McvrpError(f"{self.name}: the columns {listed(matching)} mean the same: keep one of them")
        return matching[0] if matching else None

    def calling(self, columns: Mapping[str, str], needed: Collection[str] = ()) -> Tabular:
        """Return this table with each field in the column that ``columns`` names, if there is such a column.

        That of ``id`` is of ``customer``, too. McvrpError if there is none for a field of ``needed``, or one
        for two fields.
        """
        keys = {column_key(column): column for column in self.frame.columns}
        if missing := [name for name in needed if column_key(columns.get(name, name)) not in keys]:
            raise McvrpError(
                f"{self.name} has no column {shown(columns[missing[0]])} (columns: "
                f"{listed(self.frame.columns, most=8)}): name one that it has in --columns {missing[0]}=NAME"
            )
        own = {name: keys[key] for name, title in columns.items() if (key := column_key(title)) in keys}
        if twice := [column for column in own.values() if list(own.values()).count(column) > 1]:
            raise McvrpError(f"column {shown(twice[0])} cannot be two fields: correct --columns")
        return replace(self, called=own | ({"customer": own["id"]} if "id" in own else {}))

    def others(self, used: Iterable[str | None]) -> dict[str, tuple[str, ...]]:
        """Return the text of each column with content that is not among ``used``, by its title."""
        known, texts = set(used), dict[str, tuple[str, ...]]()
        for column in self.frame.columns:
            if column not in known and any(cells := self.text(column).tolist()):
                texts[self.titles.get(column, column)] = tuple(cells)
        return texts

    def text(self, name: str) -> NDArray[np.object_]:
        """Return a column as stripped text, ``(N,)``; whole numbers without a decimal point."""
        values = self.frame[name]
        if pd.api.types.is_float_dtype(values):
            # integer ids with a missing one become floats: 7.0 is the id "7", as far as floats are exact
            whole = values.notna() & (values == values.round()) & (values.abs() < 2**53)
            return np.array(
                [str(int(v)) if w else _cell(v) for v, w in zip(values, whole, strict=True)], dtype=object
            )
        return np.array([_cell(value) for value in values], dtype=object)

    def ids(self, name: str) -> NDArray[np.object_]:
        """Return a column of ids as text like `text`, in the form in which ids are compared (`nfc`)."""
        return np.array([nfc(text) for text in self.text(name)], dtype=object)

    def refuse_unpadded(self, name: str, known: Iterable[str], faults: Faults) -> None:
        """Add the cells of a column of ids to ``faults`` that are numbers, and an id with zeros before it.

        A spreadsheet may show the number 7 as 007: it is unclear which customer is meant if 007 is one of the
        ``known`` ids.
        """
        padded = {each.lstrip("0") or "0": each for each in known if re.fullmatch("0[0-9]+", each)}
        numeric = self.frame.columns.get_loc(name) in self.numeric
        if not padded or not (numeric or any(isinstance(v, Number) for v in self.frame[name].dropna())):
            return
        for row, cell in zip(self.rows.tolist(), self.ids(name).tolist(), strict=True):
            if cell in padded:
                twin = f"which may be shown as {shown(padded[cell])}, an id of its own"
                faults.at(row, f"{name} is the number {cell}, {twin}: write ids as text")

    def numbers(self, name: str, faults: Faults, expected: str = "a number") -> NDArray[np.float64]:
        """Return a column as float64 ``(N,)``; cells that are not numbers are NaN and added to ``faults``.

        ``expected`` is what such a cell should have been.
        """
        values = self.frame[name]
        if pd.api.types.is_bool_dtype(values):
            faults.add(f"column {name} has truth values, not numbers")
            return np.full(len(self), np.nan)
        if pd.api.types.is_numeric_dtype(values):
            numbers = values.to_numpy(np.float64, na_value=np.nan)
            text = pd.Series(["" if np.isnan(number) else str(number) for number in numbers])
        else:
            text = pd.Series(self.text(name), dtype=str)
            self._refuse_grouped(name, text, faults)
            comma = text.str.fullmatch(_COMMA.pattern)
            point = text.str.contains(".", regex=False) & ~comma
            if comma.any() and point.any():
                a, b = int(comma.argmax()), int(point.argmax())
                faults.add(
                    f"column {name} has decimal commas (row {self.rows[a]}: {text[a]}) and points "
                    f"(row {self.rows[b]}: {text[b]}): use one of them"
                )
                return np.full(len(self), np.nan)
            text_with_points = text.where(~comma, text.str.replace(",", ".", regex=False))
            numbers = pd.to_numeric(text_with_points, errors="coerce").to_numpy(np.float64)
        finite = np.isfinite(numbers)
        for k in np.flatnonzero(~finite):
            what = "missing" if text[k] == "" else f"{shown(text[k])}, not {expected}"
            faults.at(self.rows[k], f"{name} is {what}")
        return np.where(finite, numbers, np.nan)

    def _refuse_grouped(self, name: str, text: pd.Series[str], faults: Faults) -> None:
        """Add the cells of a column of numbers to ``faults`` if they may have a separator of thousands.

        That is a comma in a file separated by commas, and a point in others if all numbers without one are
        short: other files with points have decimals, such as 48.857.
        """
        sign = "," if self.dialect.separator == "," else "."
        signed, grouped = text.str.contains("[.,]"), text.str.fullmatch(_grouped(sign))
        short = text[~signed & (text != "")].str.fullmatch(_SHORT)
        if grouped[signed].all() and (sign == "," or (len(short) and short.all())):
            for k in np.flatnonzero(grouped):
                faults.at(self.rows[k], f"{name} {_unclear(text[k])}")

    def refuse_thousands(self, name: str, faults: Faults) -> None:
        """Add the cells of a column of whole numbers to ``faults`` that may have a separator of thousands.

        In files of other separators than commas 1.000 may be a thousand.
        """
        if self.dialect.separator == ",":
            return
        for k, cell in enumerate(self.text(name)):
            if re.fullmatch(_grouped("."), cell) and whole(cell) is not None:
                faults.at(self.rows[k], f"{name} {_unclear(cell)}")

    def whole_numbers(self, name: str, low: int, high: int, faults: Faults) -> NDArray[np.int64]:
        """Return a column of whole numbers, int64 ``(N,)``; other cells are added to ``faults``."""
        self.refuse_thousands(name, faults)
        text = self.text(name)
        numbers = [whole(cell) for cell in text]
        for k, number in enumerate(numbers):
            if number is None or not low <= number <= high:
                what = shown(text[k]) if text[k] else "missing"
                faults.at(self.rows[k], f"{name} is {what}, not a whole number from {low} to {high:,}")
                numbers[k] = low
        return np.array(numbers, dtype=np.int64)


def _grouped(sign: str) -> str:
    return rf"[+-]?[1-9]\d{{0,2}}\{sign}\d{{3}}"


def _unclear(cell: str) -> str:
    return f"is {shown(cell)}, which may have a separator of thousands: write it without"


def _cell(value: Any) -> str:
    if isinstance(value, bytes):  # text of a Parquet file without its logical type
        return value.decode(errors="replace").strip()
    if pd.api.types.is_scalar(value) and pd.isna(value):  # isna of a list is a list
        return ""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()  # as in a spreadsheet
    return str(value).strip()


def read_tabular(name: str, data: bytes) -> Tabular:
    """Return the table in ``data``, the content of the file ``name``.

    CSV may be UTF-8, UTF-16 or Windows-1252 (with a note), separated by commas, semicolons, tabs or pipes, or
    as a first line "sep=;" declares. Of a spreadsheet, the first visible sheet with content is read.
    McvrpError if it is not a table or empty, naming all rows that are longer than the header; ReaderStopped
    as in `first_sheet`.
    """
    if data.startswith(_PARQUET):
        return _parquet(name, data)
    if is_spreadsheet(data):
        sheet = first_sheet(name, data)
        _require_size(name, sheet.cells.num_columns, sheet.cells.num_columns * sheet.cells.num_rows)
        note = f"only sheet {shown(sheet.title)} of {name} was read, not {listed(map(shown, sheet.others))}"
        notes = (note,) if sheet.others else ()
        cells = sheet.cells.to_pandas(ignore_metadata=True)
        return _cells_table(f"{name}, sheet {shown(sheet.title)}", cells, notes, sheet.numeric)
    text, guesses = _decoded(name, data)
    table = _csv(name, text, guesses)
    # what is no plain UTF-8 came from a program that needs a mark to read UTF-8
    marked = bool(guesses) or data[:2] in _UTF16 or data.startswith(codecs.BOM_UTF8)
    return replace(table, dialect=replace(table.dialect, encoding="utf-8-sig" if marked else "utf-8"))


def _parquet(name: str, data: bytes) -> Tabular:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _require_size(name, *_sizes(file.metadata))
        schema = pa.schema([field.with_type(_plain(field.type)) for field in file.schema_arrow])
        batches, size = list[pa.RecordBatch](), 0
        for batch in file.iter_batches(_BATCH):
            batches.append(batch.cast(schema))  # a repeated text takes its length in each row
            size += batches[-1].nbytes
            if size > MOST_BYTES:
                raise McvrpError(
                    f"{name} has over {MOST_BYTES:,} bytes when unpacked: remove what is not needed, or "
                    "split it"
                )
        table = pa.Table.from_batches(batches, schema)
        frame = table.to_pandas(ignore_metadata=True)  # of pandas: it may be corrupt, and hide an index
    except UNREADABLE as error:
        why = brief(reason(error), _REASON)
        raise McvrpError(f"{name} is not a valid Parquet file ({why}): copy it again") from error
    titles = [_title(column) for column in frame.columns]
    frame.columns = pd.Index([title.lower() for title in titles])
    frame = frame.loc[:, [not _NAMELESS.fullmatch(column) for column in frame.columns]]
    return _table(name, frame, np.arange(1, len(frame) + 1), (), titles)


def _require_size(name: str, columns: int, cells: int, bytes_: int = 0) -> None:
    for what, count, most in (
        ("columns", columns, _MOST_COLUMNS),
        ("cells", cells, _MOST_CELLS),
        ("bytes when unpacked", bytes_, MOST_BYTES),
    ):
        if count > most:
            raise McvrpError(
                f"{name} has {count:,} {what}, more than {most:,}: remove what is not needed, or split it"
            )


def _sizes(file: pq.FileMetaData) -> tuple[int, int, int]:
    """Return columns, cells and bytes, by the footer: a file of a few kB may hold millions of rows."""
    columns, groups = file.num_columns, [file.row_group(k) for k in range(file.num_row_groups)]
    if columns > _MOST_COLUMNS:
        return columns, 0, 0
    # the values of lists count, too
    values = sum(group.column(k).num_values for group in groups for k in range(columns))
    return columns, max(values, file.num_rows), sum(group.total_byte_size for group in groups)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _title(column: object) -> str:
    return " ".join(nfc(column).split())


def column_key(title: object) -> str:
    """Return the form in which names of columns are compared: "Customer-ID" is customer_id."""
    return "_".join(nfc(title).casefold().replace("-", " ").split())


def _decoded(name: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    try:
        # Windows-1252 decodes nearly any bytes, so it comes last
        text = data.decode("utf-16" if data[:2] in _UTF16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError:
            raise McvrpError(
                f"{name} is not text (byte {error.start} is not UTF-8): save it as CSV in UTF-8"
            ) from None
        notes = (f"{name} is not UTF-8 and was read as Windows-1252 (Western European)",)
    if "\0" in text:
        raise McvrpError(f"{name} is a binary file: save the table as CSV in UTF-8")
    return text, notes


def _csv(name: str, text: str, notes: tuple[str, ...]) -> Tabular:
    declared = _SEPARATOR_LINE.match(text)
    text = text[declared.end() :] if declared else text
    if not text.strip():
        raise McvrpError(f"{name} is empty: add a header and rows")
    head = next((line for line in text.splitlines() if line.strip()), "")
    separator = declared[1] if declared else max(_SEPARATORS, key=head.count)
    if separator not in _SEPARATORS:
        raise McvrpError(
            f"{name} is separated by {shown(separator)}, as its first line declares: save it with commas, "
            "semicolons, tabs or pipes"
        )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        widths = [len(cells) for cells in reader]
        if reader.line_num > len(widths):
            _require_closed(name, text, separator)
        widest = max(widths)
        if widest > _MOST_COLUMNS:
            row = widths.index(widest) + 1
            raise McvrpError(
                f"{name} has {widest:,} columns in row {row}, over {_MOST_COLUMNS:,}: write a row per line"
            )
        _require_size(name, widest, widest * len(widths))
        # with as many names as the longest row has cells: pandas drops cells beyond them
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
        raise McvrpError(f"{name} is not valid CSV ({reason(error)}): save it as CSV in UTF-8") from error
    table = _cells_table(name, raw.fillna("").apply(lambda column: column.str.strip()), notes)
    return replace(table, dialect=Dialect(separator, _decimal(text, separator)))


def _require_closed(name: str, text: str, separator: str) -> None:
    """Raise McvrpError if a cell over several lines ends with a quotation mark of another cell."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # within a line, the mark is part of the text
            if reader.line_num > begins:
                raise McvrpError(
                    f"{name} has an unpaired quotation mark in lines {begins} to {reader.line_num}: remove "
                    "it, or put the cell in quotes and write the mark twice"
                ) from error


def _decimal(text: str, separator: str) -> str:
    """Return the decimal sign of CSV; without numbers that have one, that of programs with its separator."""
    if separator == ",":
        return "."
    comma, point = (
        re.search(rf'(?m)(?:^|[{separator}"])[+-]?\d*{sign}\d+(?=$|[{separator}"\r])', text)
        for sign in (",", r"\.")
    )
    return "," if comma or (separator == ";" and not point) else "."


def _cells_table(
    name: str, cells: pd.DataFrame, notes: tuple[str, ...], numeric: Collection[int] = ()
) -> Tabular:
    """Return the table in ``cells``, all text; the first row with content is the header."""
    cells = unescaped(cells)
    filled = (cells != "").to_numpy()
    lines = np.flatnonzero(filled.any(axis=1))
    if not len(lines):
        raise McvrpError(f"{name} is empty except for separators: add a header and rows")
    titles, rows = np.array([_title(title) for title in cells.iloc[lines[0]]], dtype=object), lines[1:]
    titled = titles != ""
    stray = filled & ~titled
    faults = Faults(name)
    for row in rows[stray[rows].any(axis=1)].tolist():
        cell = cells.iat[row, int(stray[row].argmax())]
        faults.add(f"row {row + 1} has {shown(cell)} in a column without a header", row + 1)
    faults.check()
    frame = cells.iloc[rows].loc[:, titled].reset_index(drop=True)
    titles = titles[titled].tolist()
    frame.columns = pd.Index([title.lower() for title in titles])
    kept = np.flatnonzero(titled).tolist()
    numbers = frozenset(k for k, column in enumerate(kept) if column in numeric)
    return replace(_table(name, frame, rows + 1, notes, titles), numeric=numbers)


def _table(
    name: str, frame: pd.DataFrame, rows: NDArray[np.int64], notes: Sequence[str], titles: Iterable[str]
) -> Tabular:
    twice = sorted(set(frame.columns[frame.columns.duplicated()]))
    if twice:
        raise McvrpError(f"{name} has two columns named {listed(twice)}: keep one of them")
    if not len(frame):
        raise McvrpError(f"{name} has no rows, only a header ({listed(frame.columns)}): add rows")
    return Tabular(name, frame, rows, tuple(notes), {title.lower(): title for title in titles})
