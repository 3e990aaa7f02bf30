"""Tables in CSV of any dialect, spreadsheets or Parquet: cells of text, with errors by row.

Rows of CSV and spreadsheets are numbered as a spreadsheet shows them: the header is row 1. The first row of
Parquet is row 1.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
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
from mcvrp.tasks.files.csv_cells import NUMBER, PLAIN, Dialect, Number, unescaped, whole
from mcvrp.tasks.files.file_bytes import MOST_BYTES, Faults
from mcvrp.tasks.files.spreadsheet import ENDINGS, OVERVIEW, STOPS, cell_text, is_spreadsheet, read_sheet
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
_DECIMALS = r"[0-9]+[.,][0-9]{1,2}"
_GROUPED = r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}"  # the sign may separate thousands
_COMMA = r"[0-9]+,0{1,2}"  # whole, if the comma is a decimal sign
_BATCH = 256  # rows
_REASON = 120  # characters of another library's message
_NAMELESS = re.compile(r"__index_level_\d+__")  # unnamed index in a Parquet file of pandas


@dataclass(frozen=True, eq=False)
class Tabular:
    name: str  # of the file, for messages
    frame: pd.DataFrame  # columns by `column_key` of their titles; stripped text, "" if missing
    rows: NDArray[np.int64]  # row numbers in the file, (N,)
    notes: tuple[str, ...] = ()  # on guesses about the format
    titles: Mapping[str, str] = field(default_factory=dict)  # by column, as the file has them
    called: Mapping[str, str] = field(default_factory=dict)  # column of each field with a name of its own
    dialect: Dialect = PLAIN  # for files that the reader of this one opens
    texts: frozenset[str] | None = None  # columns of a workbook in which text looks like a number
    sheets: str = ""  # clause on other sheets of the workbook

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
            raise McvrpError(
                f"{self.name} has no column {shown(columns[missing[0]])} (columns: "
                f"{listed(self.titles.values(), most=8)}): name one of these in --columns {missing[0]}=NAME"
                f"{self.sheets}"
            )
        own = {name: key for name, key in keys.items() if key in self.frame}
        if twice := [column for column in own.values() if list(own.values()).count(column) > 1]:
            raise McvrpError(f"column {shown(self.titles[twice[0]])} cannot be two fields: correct --columns")
        return replace(self, called=own | ({"customer": own["id"]} if "id" in own else {}))

    def refuse_misspelt(self, names: Sequence[str], columns: Mapping[str, str], cutoff: float = 0.85) -> None:
        """Raise McvrpError if no column is the field ``names``, but one of ``columns``, by name, nearly is.

        ``cutoff`` is that of `difflib`; a column that is another field is no misspelling.
        """
        others = [name for name, column in columns.items() if column not in self.called.values()]
        matches = ((name, get_close_matches(name, others, n=1, cutoff=cutoff)) for name in names)
        name, close = next((match for match in matches if match[1]), ("", []))
        if close and self.column(*names) is None:
            title = self.titles[columns[close[0]]]
            raise McvrpError(
                f"{self.name} has a column {shown(title)}: did you mean {shown(name)}? Rename it, or name it "
                f"in --columns {names[0]}={title}"
            )

    def others(self, used: Iterable[str | None]) -> dict[str, tuple[str, ...]]:
        """Return the text of each column with content that is not among ``used``, by its title."""
        known, texts = set(used), dict[str, tuple[str, ...]]()
        for column in self.frame.columns:
            if column not in known and any(cells := self.text(column).tolist()):
                texts[self.titles[column]] = tuple(cells)
        return texts

    def carried(self, texts: Mapping[str, tuple[str, ...]], decimal: str) -> dict[str, tuple[str, ...]]:
        """Return ``texts``, by title, with numbers in the sign ``decimal`` as `Number`."""
        numeric = self.numeric
        return {
            title: tuple(Number.read(cell, decimal) for cell in cells) if title in numeric else cells
            for title, cells in texts.items()
        }

    @property
    def numeric(self) -> frozenset[str]:
        """Titles of the columns whose cells are numbers if they look like it.

        In a workbook, no text of the column looks like a number; otherwise all of its cells are numbers.
        """
        if self.texts is not None:
            return frozenset(title for column, title in self.titles.items() if column not in self.texts)
        sign = self.dialect.decimal
        other = "." if sign == "," else ","
        return frozenset(
            title
            for column, title in self.titles.items()
            if all(
                isinstance(Number.read(cell, sign), Number) and other not in cell
                for cell in self.text(column)
                if cell
            )
        )

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

        A column has one decimal sign: the one that the file's separator declares, or one that cannot separate
        thousands in all its cells; numbers that are ``small``, below 1,000, have none of these. ``expected``
        is what a wrong cell should have been.
        """
        text, title = pd.Series(self.text(name), dtype=str), self.titles[name]
        signs = text.str.extract(_FRACTION, expand=False)
        if signs.nunique() > 1:
            a, b = (int((signs == sign).argmax()) for sign in ",.")
            mixed = f"and points (row {self.rows[b]}: {text[b]}): use one of them"
            if self.texts is not None:
                mixed = "as text, beside numbers: make all of its cells numbers"
            faults.add(f"column {title} has decimal commas (row {self.rows[a]}: {text[a]}) {mixed}")
            return np.full(len(self), np.nan)
        unclear = text.str.fullmatch(_GROUPED) & (signs != _DECLARED.get(self.dialect.separator))
        if small or not unclear[signs.notna()].all():
            unclear[:] = False
        plain = text.where(signs != ",", text.str.replace(",", "."))
        numbers = plain.where(plain.str.fullmatch(NUMBER)).to_numpy(np.float64, na_value=np.nan)
        for k in np.flatnonzero(unclear | ~np.isfinite(numbers)):
            what = f"{shown(text[k])}, not {expected}" if text[k] else "missing"
            faults.at(self.rows[k], f"{title} is {_unclear(text[k]) if unclear[k] else what}")
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def whole_numbers(self, name: str, low: int, high: int, faults: Faults) -> NDArray[np.int64]:
        """Return a column of whole numbers, int64 ``(N,)``; other cells are added to ``faults``.

        In files of other separators than commas 1.000 may be a thousand, and is refused.
        """
        numbers, title = np.full(len(self), low), self.titles[name]
        declared = _DECLARED.get(self.dialect.separator)
        may_group = declared != "."
        for k, cell in enumerate(self.text(name)):
            number = whole(cell.replace(",", ".") if declared == "," else cell)
            if may_group and number is not None and re.fullmatch(_GROUPED, cell):
                faults.at(self.rows[k], f"{title} is {_unclear(cell)}")
            if number is not None and low <= number <= high:
                numbers[k] = number
            elif declared != "," and re.fullmatch(_COMMA, cell):
                faults.at(self.rows[k], f"{title} is {_unclear(cell, 'decimal comma')}")
            else:
                what, expected = shown(cell) if cell else "missing", f" from {low} to {high:,}"
                if number is None and re.fullmatch(_DECIMALS, cell):
                    expected = ": give tenths or hundredths, for the capacity, too"
                faults.at(self.rows[k], f"{title} is {what}, not a whole number{expected}")
        return numbers


def _unclear(cell: str, sign: str = "separator of thousands") -> str:
    return f"{shown(cell)}, which may have a {sign}: write it without"


def read_tabular(name: str, data: bytes, sheet: str | None = None) -> Tabular:
    """Return the table in ``data``, the content of the file ``name``.

    CSV may be UTF-8, UTF-16 or Windows-1252 (with a note), separated by commas, semicolons, tabs or pipes.
    ``sheet`` is one of a spreadsheet, by default the first visible one with content. McvrpError if it is not
    a table or empty, naming all rows that are longer than the header.
    """
    if is_spreadsheet(data):
        read = read_sheet(name, data, sheet)
        if read.title == OVERVIEW and STOPS in read.others:  # of `routes.xlsx`
            read = read_sheet(name, data, STOPS)
        others = listed(map(shown, read.others))
        note = f"only sheet {shown(read.title)} of {name} was read, not {others} (--sheet chooses one)"
        notes = (note,) if read.others else ()
        sheets = f", or choose {others} by --sheet" if read.others else ""
        name = f"{name}, sheet {shown(read.title)}"
        return _cells_table(name, read.csv, notes, OF_EXCEL, read.texts, sheets)
    if sheet is not None:
        raise McvrpError(f"{name} is not a workbook: omit --sheet")
    if name.lower().endswith(ENDINGS):
        raise McvrpError(f"{name} is not a spreadsheet, only named like one: save it again, or name it .csv")
    if data.startswith(_PARQUET):
        return _parquet(name, data)
    text, guesses = _decoded(name, data)
    # a title above the header may have no separator
    head = next((line for line in text.splitlines() if any(sign in line for sign in _SEPARATORS)), "")
    separator = max(_SEPARATORS, key=head.count)
    # what is no plain UTF-8 came from a program that needs a mark to read UTF-8, semicolons from Excel
    marked = bool(guesses) or data[:2] in _UTF16 or data.startswith(codecs.BOM_UTF8)
    marked |= separator == ";" and data.isascii()
    dialect = Dialect(separator, _decimal(text, separator), "utf-8-sig" if marked else "utf-8")
    return _cells_table(name, text, guesses, dialect)


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
    name: str,
    text: str,
    notes: tuple[str, ...],
    dialect: Dialect = PLAIN,
    texts: frozenset[int] | None = None,
    sheets: str = "",
) -> Tabular:
    """Return the table in ``text``, CSV; the first row with content is the header.

    ``texts`` are those of a `Sheet`, ``sheets`` of a `Tabular`.
    McvrpError if it is too large, a title is above the header, a cell has no header, or a quotation mark is
    not paired, which would swallow the next rows.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator, strict=True)
    titles, rows, records, faults, begins = list[str](), list[int](), list[list[str]](), Faults(name), 1
    above = 0  # row of what may be a title above the header
    try:
        for row, cells in enumerate(reader, start=1):
            begins = reader.line_num + 1  # of the next row
            if len(cells) > _MOST_COLUMNS or len(titles) * len(rows) > _MOST_CELLS:
                raise _too_large(f"{name}, row {row},")
            cells = [unescaped(cell.strip()) for cell in cells]
            if not any(cells):
                continue
            if not titles:
                titles, above = [_title(cell) for cell in cells], row if sum(map(bool, cells)) == 1 else 0
                continue
            if above and sum(map(bool, cells)) > 1:
                raise McvrpError(
                    f"{name}: row {above} has a single cell and is no header, which row {row} seems to be: "
                    f"remove the rows above it{sheets}"
                )
            titled = list(zip_longest(titles, cells, fillvalue=""))
            if stray := next((cell for title, cell in titled if cell and not title), ""):
                faults.add(f"row {row} has {shown(stray)} in a column without a header", row)
            rows.append(row)
            records.append([cell for title, cell in titled if title])
    except csv.Error as error:
        lines = f"line {begins}" if begins == reader.line_num else f"lines {begins} to {reader.line_num}"
        hint = "put a cell with quotation marks in quotes, and write the marks twice"
        raise McvrpError(f"{name} is not valid CSV in {lines} ({reason(error)}): {hint}") from error
    if not titles:
        raise McvrpError(f"{name} is empty: add a header and rows")
    faults.check()
    keys = None if texts is None else frozenset(column_key(titles[k]) for k in texts if k < len(titles))
    titles = [title for title in titles if title]
    frame = pd.DataFrame(records, columns=range(len(titles)), dtype=str)
    table = _table(name, frame, np.array(rows), titles, sheets)
    return replace(table, notes=notes, dialect=dialect, texts=keys, sheets=sheets)


def _parquet(name: str, data: bytes) -> Tabular:
    try:
        file, batches, size = pq.ParquetFile(pa.BufferReader(data)), list[pa.RecordBatch](), 0
        footer = file.metadata  # a file of a few kB may hold millions of rows
        groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
        if footer.num_columns > _MOST_COLUMNS or sum(group.total_byte_size for group in groups) > MOST_BYTES:
            raise _too_large(name)
        # the values of lists count, too
        values = (group.column(k).num_values for group in groups for k in range(footer.num_columns))
        if max(sum(values), footer.num_rows) > _MOST_CELLS:
            raise _too_large(name)
        schema = pa.schema([field.with_type(_plain(field.type)) for field in file.schema_arrow])
        for batch in file.iter_batches(_BATCH):
            batches.append(batch.cast(schema))  # a repeated text takes its length in each row
            size += batches[-1].nbytes
            if size > MOST_BYTES:
                raise _too_large(name)
        frame = pa.Table.from_batches(batches, schema).to_pandas(ignore_metadata=True)  # it may be corrupt
    except UNREADABLE as error:
        why = brief(reason(error), _REASON)
        raise McvrpError(f"{name} is not a valid Parquet file ({why}): copy it again") from error
    return Tabular.of(name, frame.loc[:, [not _NAMELESS.fullmatch(column) for column in frame.columns]])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _too_large(name: str) -> McvrpError:
    limits = f"{_MOST_COLUMNS:,} columns, {_MOST_CELLS:,} cells or {MOST_BYTES:,} bytes when unpacked"
    return McvrpError(f"{name} has more than {limits}: remove what is not needed, or split it")


def _table(
    name: str, frame: pd.DataFrame, rows: NDArray[np.int64], titles: Sequence[str], sheets: str = ""
) -> Tabular:
    """Return ``frame``, all text, with columns named after their ``titles``."""
    columns = pd.Index([column_key(title) for title in titles])
    if twice := [title for title, again in zip(titles, columns.duplicated(keep=False), strict=True) if again]:
        raise McvrpError(f"{name} has two columns named {listed(dict.fromkeys(twice))}: keep one of them")
    if not len(frame):
        raise McvrpError(f"{name} has no rows, only a header ({listed(titles)}): add rows{sheets}")
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
