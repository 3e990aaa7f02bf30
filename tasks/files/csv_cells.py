"""Cells of text files: numbers without rounding, and CSV whose cells no spreadsheet runs as formulas.

Text that begins like a formula is written with an apostrophe, which `tasks.files.tabular` removes, so that
ids survive a round trip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import pandas as pd

# ASCII digits, decimal point, exponent
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"([+-]?[0-9]{1,100})(?:\.0*)?")
_RETURN = re.compile("\r\n?")
# Start of a formula (OWASP, CSV Injection), escaped or not.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")


@dataclass(frozen=True)
class Dialect:
    """Form of a CSV file: separator of cells, decimal sign, encoding (by the name that Python has for it)."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"


PLAIN = Dialect()


def whole(text: str) -> int | None:
    """Return ``text`` as a whole number ("3", "+3", "3.0"), None if it is not one.

    Nothing is rounded: "3.0000000000000000001" is not a whole number.
    """
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None


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
