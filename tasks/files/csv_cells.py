"""CSV for people, whose spreadsheets would run a cell as a formula: such text is written with an apostrophe.

What we read loses it again, so that ids come back as they were (`tasks.files.tabular`).
"""

from __future__ import annotations

import re

import pandas as pd

from mcvrp.tasks.files.numbers import NUMBER

# What a formula begins with (OWASP, CSV Injection), and one that has been escaped already.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return ``table`` as CSV in UTF-8 without its index; no text in it begins as a formula does."""
    cells = table.rename(columns=_escaped)
    return cells.map(_escaped).to_csv(index=False, lineterminator="\n").encode()


def _escaped(cell: object) -> object:
    if not isinstance(cell, str) or NUMBER.fullmatch(cell) or not _FORMULA.match(cell):
        return cell
    return f"'{cell}"


def unescaped(cells: pd.DataFrame) -> pd.DataFrame:
    """Return ``cells``, all text, as they were before `csv_bytes`."""
    quoted = cells.apply(lambda column: column.str.startswith("'"))
    return cells.mask(quoted, cells[quoted.any(axis=1)].map(_plain)) if quoted.to_numpy().any() else cells


def _plain(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
