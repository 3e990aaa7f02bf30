"""Hostile spreadsheets: workbooks of a few kB that ask for gigabytes of memory, or are wrong in a part."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.workbook import Rows, edited, with_cell, with_state, xlsx

ROWS: Rows = [["customer", "demand"], ["C1", 1]]
PLAIN = xlsx({"Orders": ROWS})
MEMORY, CELLS, NO_WORKBOOK = "far from the table", "cells up to the last one", "not a valid spreadsheet"
_SHEET = "xl/s1.xml"
_ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")


def _far(place: str) -> Callable[[], bytes]:
    return lambda: with_cell(PLAIN, f'<c r="{place}"><v>1</v></c>')


def _swapped(old: str, new: str) -> Callable[[], bytes]:
    return lambda: edited(PLAIN, {_SHEET: lambda text: text.replace(old.encode(), new.encode())})


def _with_far_sheet(number: int) -> bytes:
    """Return a workbook with a sheet ``number`` whose cells are far from each other, hidden if the first."""
    sheets: dict[str, Rows] = {"Orders": ROWS, "Far": [["a"], ["b"]]}
    data = xlsx(dict(sorted(sheets.items(), reverse=number == 2)))
    far = {f"xl/s{number}.xml": lambda text: text.replace(b'"A2"', b'"XFD1048576"')}
    return with_state(edited(data, far), "Far", "hidden" if number == 1 else "visible")


# name: the workbook as orders, and part of what is said; None where it is read
SPREADSHEETS: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "a cell in XFD1048576": (_far("XFD1048576"), MEMORY),
    "a cell in J1048576": (_far("J1048576"), CELLS),
    "far cells in a hidden sheet": (lambda: _with_far_sheet(1), None),
    "far cells in a later sheet": (lambda: _with_far_sheet(2), None),
    "3,000 empty sheets before": (lambda: xlsx({**{f"S{k}": [] for k in range(3000)}, "Orders": ROWS}), None),
    "a formula with an error": (
        _swapped('<c r="B2"><v>1</v>', '<c r="B2" t="e"><f>1/0</f><v>#DIV/0!</v>'),
        "row 2: demand is missing",
    ),
    "a date of 1e300 days": (_swapped('<c r="B2"><v>1<', '<c r="B2" s="1"><v>1e300<'), "row 2: demand"),
    "a sheet without a cell": (lambda: xlsx({"Orders": []}), "no visible sheet with content"),
    "hidden sheets only": (lambda: with_state(PLAIN, "Orders", "veryHidden"), "or unhide its sheet"),
    "a workbook with a password": (lambda: _ENCRYPTED, "has a password"),
}
