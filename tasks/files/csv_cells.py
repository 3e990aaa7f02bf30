"""CSV files whose cells no spreadsheet runs as formulas: such text is written with an apostrophe.

`tasks.files.tabular` removes it, so that ids survive a round trip.
"""

from __future__ import annotations

import re

import pandas as pd

from mcvrp.tasks.files.numbers import NUMBER

# Start of a formula (OWASP, CSV Injection), escaped or not.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return ``table`` as CSV in UTF-8, without its index and with formulas escaped."""
    return table.rename(columns=_escaped).map(_escaped).to_csv(index=False, lineterminator="\n").encode()


def _escaped(cell: object) -> object:
    if not isinstance(cell, str) or NUMBER.fullmatch(cell) or not _FORMULA.match(cell):
        return cell
    return f"'{cell}"


def unescaped(cells: pd.DataFrame) -> pd.DataFrame:
    """Return ``cells``, all text, without the escapes of `csv_bytes`."""
    quoted = cells.apply(lambda column: column.str.startswith("'"))
    return cells.mask(quoted, cells[quoted.any(axis=1)].map(_plain)) if quoted.to_numpy().any() else cells


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
