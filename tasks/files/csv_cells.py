"""Cells of text files: whole numbers, dates, and CSV whose cells no spreadsheet runs as formulas.

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
_WHOLE = re.compile(r"([+-]?[0-9]{1,100})(?:\.0*)?")
_RETURN = re.compile("\r\n?")
_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_LOCAL_DATE = r"[0-9]{1,2}([./-])[0-9]{1,2}\1[0-9]{4}"  # in one order of day and month per file
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
    """Text of a number that is carried into files: in their decimal sign, or in a workbook its value."""

    @classmethod
    def read(cls, text: str, decimal: str) -> str:
        """Return ``text`` as a number with the sign ``decimal``, as it is if it may be none.

        Codes with leading zeros and numbers that Excel would show rounded stay text, unlike "70,0".
        """
        plain = text.replace(",", ".")
        shortest = _ZEROS.sub(r"\1", plain)
        if NUMBER.fullmatch(plain) and repr(cls(plain).value) == shortest and abs(float(plain)) < _ROUNDED:
            return cls(plain.replace(".", decimal))
        return text

    @property
    def value(self) -> float:
        value = float(self.replace(",", "."))
        return int(value) if value.is_integer() else value


def whole(text: str) -> int | None:
    """Return ``text`` as a whole number ("3", "+3", "3.0"), None if it is not one.

    Nothing is rounded: "3.0000000000000000001" is not a whole number.
    """
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None


def dates(text: pd.Series[str], order: DateOrder | None = None) -> pd.Series[pd.Timestamp]:
    """Return the dates, NaT if invalid; 21/02/2026 by ``order``, or if all of the file agree on one."""
    # pandas accepts digits of all scripts
    written, local = (text.str.fullmatch(form).fillna(False).astype(bool) for form in (_DATE, _LOCAL_DATE))
    dates = pd.to_datetime(text.where(written), format="%Y-%m-%d", errors="coerce")
    parts = text[local].str.replace(r"[./-]", "-", regex=True)
    day_first, month_first = (
        pd.to_datetime(parts, format=form, errors="coerce") for form in ("%d-%m-%Y", "%m-%d-%Y")
    )
    # with dots, the day is first everywhere
    dotted = text.str.contains(".", regex=False).fillna(False).astype(bool) & local
    dates = dates.where(~dotted, day_first.reindex(dates.index))
    others = (local & ~dotted)[local]
    possible = (day_first.notna() | month_first.notna()) & others
    orders = [order for order in (day_first, month_first) if order[possible].notna().all()]
    if order:
        orders = [day_first if order == "day-first" else month_first]
    if orders and (len(orders) == 1 or orders[0][others].equals(orders[1][others])):
        dates = dates.where(dotted | ~local, orders[0].reindex(dates.index))
    return dates


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
