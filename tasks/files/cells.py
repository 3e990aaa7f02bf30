"""Cells of text files: numbers, dates, and CSV whose cells no spreadsheet runs as formulas.

Text that begins like a formula is written with an apostrophe, which `tasks.files.tabular` removes, so that
ids survive a round trip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import pandas as pd

from mcvrp.storage.cities import DateOrder

# ASCII digits, decimal point, exponent
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_ROUNDED = 1e11  # from here on, Excel shows 1E+11
_ZEROS = re.compile(r"(?:\.|(\.[0-9]*[1-9]))0+$")  # at the end of a fraction
_RETURN = re.compile("\r\n?")
_DATES = {"%Y-%m-%d": "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", "%d.%m.%Y": r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}"}
_ORDERS: dict[DateOrder, str] = {"day-first": "%d/%m/%Y", "month-first": "%m/%d/%Y"}
_LOCAL_DATE = "[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}"
# Start of a formula (OWASP, CSV Injection), escaped or not.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")


@dataclass(frozen=True)
class Dialect:
    """Form of a CSV file: separator of cells, decimal sign, encoding (by the name that Python has for it)."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"


PLAIN = Dialect()


class Number(str):
    """Text of a number in the decimal sign of its file, in a workbook its value."""

    @classmethod
    def read(cls, text: str, decimal: str) -> str:
        """Return ``text`` as a number with the sign ``decimal``, as it is if it may be none.

        Codes with leading zeros and numbers that Excel would show rounded stay text, unlike "70,0".
        """
        plain = text if decimal == "." else text.replace(".", "?").replace(decimal, ".")
        shortest = _ZEROS.sub(r"\1", plain)
        if NUMBER.fullmatch(plain) and repr(cls(plain).value) == shortest and abs(float(plain)) < _ROUNDED:
            return cls(text)
        return text

    @property
    def value(self) -> float:
        value = float(self.replace(",", "."))
        return int(value) if value.is_integer() else value


def dates(text: pd.Series[str], order: DateOrder | None = None) -> pd.Series[pd.Timestamp]:
    """Return the dates, NaT if invalid: 2026-02-21, 21.02.2026, and 21/02/2026 or 21-02-2026 in ``order``."""
    days = pd.Series(pd.NaT, text.index, dtype="datetime64[ns]")
    written = {form: text.str.fullmatch(pattern) for form, pattern in _DATES.items()}
    if order:
        text = text.where(written["%Y-%m-%d"], text.str.replace("-", "/"))
        written[_ORDERS[order]] = text.str.fullmatch(_LOCAL_DATE)
    for form, these in written.items():  # pandas accepts digits of all scripts
        chosen = text[these.fillna(False).astype(bool)]
        days.update(pd.to_datetime(chosen, format=form, errors="coerce"))
    return days


def lack_order(text: pd.Series[str], order: DateOrder | None) -> pd.Series[bool]:
    """Return which of ``text`` would be dates if the ``order`` of day and month were declared."""
    if order:
        return pd.Series(False, text.index)
    declared = [dates(text, each).notna() for each in _ORDERS]
    return dates(text).isna() & (declared[0] | declared[1])


def csv_bytes(table: pd.DataFrame, dialect: Dialect = PLAIN) -> bytes:
    """Return ``table`` as CSV in ``dialect``, without its index and with formulas escaped."""
    escaped = partial(_escaped, decimal=dialect.decimal)
    cells = table.rename(columns=escaped).map(escaped)
    text = cells.to_csv(index=False, sep=dialect.separator, decimal=dialect.decimal, lineterminator="\n")
    return text.encode(dialect.encoding)


def _escaped(cell: object, decimal: str) -> object:
    if not isinstance(cell, str):
        return cell
    cell = _RETURN.sub("\n", cell)  # not quoted by Python before 3.13, but the end of a row for readers
    if NUMBER.fullmatch(cell.replace(decimal, ".", 1)) or not _FORMULA.match(cell):
        return cell
    return f"'{cell}"


def unescaped(cell: str) -> str:
    """Return ``cell`` without the escape of `csv_bytes`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
