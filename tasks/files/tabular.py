"""Tables in CSV of any dialect, spreadsheets or Parquet: cells of text, with errors by row.

Rows of CSV and spreadsheets are numbered as a spreadsheet shows them: the header is row 1. The first row of
Parquet is row 1.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from mcvrp.model.city import nfc
from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.storage.parquet import UNREADABLE
from mcvrp.tasks.files.cells import NUMBER, PLAIN, Dialect, unescaped
from mcvrp.tasks.files.file_bytes import MOST_BYTES, Faults
from mcvrp.tasks.files.spreadsheet import ENDINGS, GROUPED, cell_text, is_spreadsheet, read_sheet
from mcvrp.tasks.support.text import listed

_MOST_CELLS = 20_000_000
_MOST_COLUMNS = 1000
_SEPARATORS = ";\t,|"
_DECLARED = {",": ".", ";": ","}  # decimal sign of programs that use this separator
OF_EXCEL = Dialect(encoding="utf-8-sig")  # with a mark, Excel opens CSV as UTF-8
# Marks of rows, among them what Excel writes for TRUE and FALSE.
YES = ("1", "yes", "true", "x", "ja", "oui", "wahr", "vrai", "verdadero", "verdadeiro", "vero", "waar")
NO = ("", "0", "no", "false", "nein", "non", "falsch", "faux", "falso", "onwaar")
_PARQUET = b"PAR1"
_BINARY = (b"%PDF", b"\x1f\x8b")  # PDF and gzip, which may decode as Windows-1252
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FRACTION = r"\A[+-]?[0-9]*([.,])[0-9]+(?:[eE][+-]?[0-9]+)?\Z"
_BATCH = 256  # rows
_REASON = 120  # characters of another library's message


@dataclass(frozen=True, eq=False)
class Tabular:
    name: str  # of the file, for messages
    frame: pd.DataFrame  # columns by `column_key` of their titles; stripped text, "" if missing
    rows: NDArray[np.int64]  # row numbers in the file, (N,)
    notes: tuple[str, ...] = ()  # on guesses about the format
    titles: Mapping[str, str] = field(default_factory=dict)  # by column, as the file has them
    called: Mapping[str, str] = field(default_factory=dict)  # column of each field with a name of its own
    dialect: Dialect = PLAIN  # for files that the reader of this one opens
    texts: frozenset[str] = frozenset()  # columns of a workbook in which text may have a thousand

    @classmethod
    def of(cls, name: str, frame: pd.DataFrame) -> Tabular:
        """Return ``frame``, cells of any type, with rows from 1; McvrpError as in `read_tabular`."""
        text = frame.astype(object).map(_cell).astype(str)
        return _table(name, text, np.arange(1, len(frame) + 1), [_title(column) for column in frame.columns])

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
            raise McvrpError(
                f"{self.name}: the columns {listed(map(self.titles.get, matching))} mean the same: keep one"
            )
        return matching[0] if matching else None

    def calling(self, columns: Mapping[str, str], needed: Collection[str] = ()) -> Tabular:
        """Return this table with each field in the column that ``columns`` names, if there is such a column.

        That of ``id`` is of ``customer``, too. McvrpError if there is none for a field of ``needed``, or one
        for two fields.
        """
        keys = {name: column_key(title) for name, title in columns.items()}
        if missing := [name for name in needed if keys[name] not in self.frame]:
            raise self.lacks(shown(columns[missing[0]]), f"name one of these in --columns {missing[0]}=NAME")
        own = {name: key for name, key in keys.items() if key in self.frame}
        if twice := [column for column in own.values() if list(own.values()).count(column) > 1]:
            raise McvrpError(f"column {shown(self.titles[twice[0]])} cannot be two fields: correct --columns")
        return replace(self, called=own | ({"customer": own["id"]} if "id" in own else {}))

    def lacks(self, column: str, hint: str) -> McvrpError:
        """Return the error of a missing ``column``, which lists those that are there."""
        columns = listed(self.titles.values(), most=8)
        return McvrpError(f"{self.name} has no column {column} (columns: {columns}): {hint}")

    def others(self, used: Iterable[str | None]) -> dict[str, tuple[str, ...]]:
        """Return the text of each column with content that is not among ``used``, by its title."""
        known, texts = set(used), dict[str, tuple[str, ...]]()
        for column in self.frame.columns:
            if column not in known and any(cells := self.text(column).tolist()):
                texts[self.titles[column]] = tuple(cells)
        return texts

    def where(self, chosen: NDArray[np.bool_]) -> Tabular:
        """Return the ``chosen`` rows, ``(N,)``."""
        return replace(self, frame=self.frame[chosen].reset_index(drop=True), rows=self.rows[chosen])

    def text(self, name: str) -> NDArray[np.object_]:
        """Return a column as text, ``(N,)``."""
        return self.frame[name].to_numpy(object)

    def ids(self, name: str) -> NDArray[np.object_]:
        """Return a column of ids, ``(N,)``, in the form in which ids are compared (`nfc`)."""
        return np.array([nfc(text) for text in self.text(name)], dtype=object)

    def numbers(
        self, name: str, faults: Faults, expected: str = "a number", *, small: bool = False
    ) -> NDArray[np.float64]:
        """Return a column as float64 ``(N,)``; cells that are not numbers are NaN and added to ``faults``.

        A column has one decimal sign: the one that the file's separator declares, or one that a cell shows to
        be decimal, as in 48.8566. Otherwise 1.234 may be a thousand and is refused, unless numbers are
        ``small``, below 1,000. ``expected`` is what a wrong cell should have been.
        """
        text, title = pd.Series(self.text(name), dtype=str), self.titles[name]
        signs = text.str.extract(_FRACTION, expand=False)
        if signs.nunique() > 1:
            a, b = (int((signs == sign).argmax()) for sign in ",.")
            rows = f"commas (row {self.rows[a]}: {text[a]}) and points (row {self.rows[b]}: {text[b]})"
            faults.add(f"column {title} has decimal {rows}: use one of them")
            return np.full(len(self), np.nan)
        unclear, in_text = text.str.fullmatch(GROUPED), name in self.texts
        if small or not (in_text or unclear[signs.notna()].all()):
            unclear[:] = False
        unclear &= in_text | (signs != _DECLARED.get(self.dialect.separator, ""))
        plain = text.where(signs != ",", text.str.replace(",", "."))
        numbers = plain.where(plain.str.fullmatch(NUMBER)).to_numpy(np.float64, na_value=np.nan)
        for k in np.flatnonzero(unclear | ~np.isfinite(numbers)):
            what = f"{shown(text[k])}, not {expected}" if text[k] else "missing"
            if unclear[k]:
                what = f"{shown(text[k])}, which may have a separator of thousands: write it without"
            faults.at(self.rows[k], f"{title} is {what}")
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def whole_numbers(self, name: str, low: int, high: int, faults: Faults) -> NDArray[np.int64]:
        """Return a column of whole numbers, int64 ``(N,)``; other cells are added to ``faults``."""
        expected = f"a whole number from {low} to {high:,}"
        numbers, cells = self.numbers(name, faults, expected), self.text(name)
        valid = (numbers % 1 == 0) & (low <= numbers) & (numbers <= high)
        for k in np.flatnonzero(~valid & ~np.isnan(numbers)):
            faults.at(self.rows[k], f"{self.titles[name]} is {shown(cells[k])}, not {expected}")
        return np.where(valid, numbers, low).astype(np.int64)


def read_tabular(name: str, data: bytes, sheet: str | None = None) -> Tabular:
    """Return the table in ``data``, the content of the file ``name``.

    CSV may be UTF-8, UTF-16 or Windows-1252 (with a note), separated by commas, semicolons, tabs or pipes.
    ``sheet`` is one of a spreadsheet, see `read_sheet`. McvrpError if it is not a table or empty, naming all
    rows that are longer than the header.
    """
    if is_spreadsheet(data):
        read = read_sheet(name, data, sheet)
        note = f"only sheet {shown(read.title)} of {name} was read (--sheet chooses one)"
        titled = f"{name}, sheet {shown(read.title)}"
        return _cells_table(titled, read.csv, OF_EXCEL, (note,) if read.is_one_of_several else (), read.texts)
    if sheet is not None:
        raise McvrpError(f"{name} is not a workbook: omit --sheet")
    if name.lower().endswith(ENDINGS):
        raise McvrpError(f"{name} is not a spreadsheet, only named like one: save it again, or name it .csv")
    if data.startswith(_PARQUET):
        return _parquet(name, data)
    text, notes = _decoded(name, data)
    # a title above the header may have no separator
    head = next((line for line in text.splitlines() if any(sign in line for sign in _SEPARATORS)), "")
    separator = max(_SEPARATORS, key=head.count)
    # what is no plain UTF-8 came from a program that needs a mark to read UTF-8, semicolons from Excel
    marked = bool(notes) or data[:2] in _UTF16 or data.startswith(codecs.BOM_UTF8)
    marked |= separator == ";" and data.isascii()
    dialect = Dialect(separator, _DECLARED.get(separator, "."), "utf-8-sig" if marked else "utf-8")
    return _cells_table(name, text, dialect, notes)


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
        notes = (
            f"{name} is not UTF-8 and was read as Windows-1252 (Western European); CSV UTF-8 needs no guess",
        )
    if "\0" in text or data.startswith(_BINARY):
        raise McvrpError(f"{name} is a binary file: save the table as CSV in UTF-8")
    return text, notes


def _cells_table(
    name: str, text: str, dialect: Dialect, notes: tuple[str, ...], texts: frozenset[int] = frozenset()
) -> Tabular:
    """Return the table in ``text``, CSV; the first row with content is the header.

    ``texts`` are those of a `Sheet`. McvrpError if it is too large, a cell has no header, as below a title of
    the table, or a quotation mark is not paired, which would swallow the next rows.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator, strict=True)
    titles, rows, records, faults = list[str](), list[int](), list[list[str]](), Faults(name)
    header, begins = 0, 1  # a row and a line
    try:
        for row, cells in enumerate(reader, start=1):
            begins = reader.line_num + 1  # of the next row
            if len(cells) > _MOST_COLUMNS or len(titles) * len(rows) > _MOST_CELLS:
                raise _too_large(f"{name}, row {row},")
            cells = [unescaped(cell.strip()) for cell in cells]
            if not any(cells):
                continue
            if not titles:
                titles, header = [_title(cell) for cell in cells], row
                continue
            titled = list(zip_longest(titles, cells, fillvalue=""))
            if stray := next((cell for title, cell in titled if cell and not title), ""):
                faults.add(f"row {row} has {shown(stray)} in a column without a header in row {header}", row)
            rows.append(row)
            records.append([cell for title, cell in titled if title])
    except csv.Error as error:
        lines = f"line {begins}" if begins == reader.line_num else f"lines {begins} to {reader.line_num}"
        hint = "put a cell with quotation marks in quotes, and write the marks twice"
        raise McvrpError(f"{name} is not valid CSV in {lines} ({reason(error)}): {hint}") from error
    if not titles:
        raise McvrpError(f"{name} is empty: add a header and rows")
    faults.check()
    keys = frozenset(column_key(titles[k]) for k in texts if k < len(titles))
    titles = [title for title in titles if title]
    frame = pd.DataFrame(records, columns=range(len(titles)), dtype=str)
    table = _table(name, frame, np.array(rows), titles)
    return replace(table, notes=notes, dialect=dialect, texts=keys)


def _parquet(name: str, data: bytes) -> Tabular:
    try:
        file, batches, size = pq.ParquetFile(pa.BufferReader(data)), list[pa.RecordBatch](), 0
        columns, rows = file.metadata.num_columns, file.metadata.num_rows  # a few kB may hold millions
        if columns > _MOST_COLUMNS or columns * rows > _MOST_CELLS:
            raise _too_large(name)
        schema = pa.schema([field.with_type(_plain(field.type)) for field in file.schema_arrow])
        if lists := [field.name for field in schema if pa.types.is_nested(field.type)]:
            raise McvrpError(f"{name} has no single values in column {shown(lists[0])}: remove it")
        for batch in file.iter_batches(_BATCH):
            batches.append(batch.cast(schema))  # a repeated text takes its length in each row
            size += batches[-1].nbytes
            if size > MOST_BYTES:
                raise _too_large(name)
        frame = pa.Table.from_batches(batches, schema).to_pandas(ignore_metadata=True)  # it may be corrupt
    except UNREADABLE as error:
        why = brief(reason(error), _REASON)
        raise McvrpError(f"{name} is not a valid Parquet file ({why}): copy it again") from error
    return Tabular.of(name, frame)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _too_large(name: str) -> McvrpError:
    limits = f"{_MOST_COLUMNS:,} columns, {_MOST_CELLS:,} cells or {MOST_BYTES:,} bytes when unpacked"
    return McvrpError(f"{name} has more than {limits}: remove what is not needed, or split it")


def _table(name: str, frame: pd.DataFrame, rows: NDArray[np.int64], titles: Sequence[str]) -> Tabular:
    """Return ``frame``, all text, with columns named after their ``titles``."""
    columns = pd.Index([column_key(title) for title in titles])
    if twice := [title for title, again in zip(titles, columns.duplicated(keep=False), strict=True) if again]:
        raise McvrpError(f"{name} has two columns named {listed(dict.fromkeys(twice))}: keep one of them")
    if not len(frame):
        raise McvrpError(f"{name} has no rows, only a header ({listed(titles)}): add rows")
    titled = dict(zip(columns, titles, strict=True))
    return Tabular(name, frame.set_axis(columns, axis=1), rows, titles=titled)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):  # text of a Parquet file without its logical type
        return value.decode(errors="replace").strip()
    if pd.api.types.is_scalar(value) and pd.isna(value):  # isna of a list is a list
        return ""
    return cell_text(float(value) if isinstance(value, np.floating) else value)


def _title(column: object) -> str:
    return " ".join(nfc(column).split())


def column_key(title: object) -> str:
    """Return the form in which names of columns are compared: "Customer-ID" is customer_id."""
    return "_".join(nfc(title).casefold().replace("-", " ").split())
