"""Workbooks of Excel and LibreOffice, and changes to their parts."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from xlsxwriter import Workbook

Rows = Sequence[Any]
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
SHEET = "xl/worksheets/sheet1.xml"  # the first of a workbook
DAY = "day"  # in place of a number: the cell (DAY, 46053) is a date, days since 1899-12-30


def xlsx(sheets: Mapping[str, Rows]) -> bytes:
    """Return a workbook with ``sheets``, the same bytes each time; (DAY, number) is a date."""
    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with Workbook(buffer, options) as book:
        # without the clock: cases are named by their bytes, which all test processes have to agree on
        book.set_properties({"created": datetime.datetime(2000, 1, 1)})
        date = book.add_format({"num_format": 14})
        for title, rows in sheets.items():
            sheet = book.add_worksheet(title)
            for k, row in enumerate(rows):
                for j, cell in enumerate(row):
                    sheet.write(k, j, *((cell[1], date) if isinstance(cell, tuple) else (cell,)))
    return buffer.getvalue()


def ods(sheets: Mapping[str, str]) -> bytes:
    """Return a workbook of LibreOffice with ``sheets``, each as the XML of its rows."""
    names = " ".join(f'xmlns:{name}="{_OASIS}:{name}:1.0"' for name in ("office", "table", "text"))
    tables = "".join(
        f'<table:table table:name="{escape(title)}">{rows}</table:table>' for title, rows in sheets.items()
    )
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    parts = {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "META-INF/manifest.xml": f'<m:manifest xmlns:m="{_OASIS}:manifest:1.0"/>',
        "content.xml": f"<office:document-content {names}>{body}</office:document-content>",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return buffer.getvalue()


def edited(data: bytes, edits: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """Return the workbook ``data`` packed, its parts passed through ``edits``; one that it lacks is added."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        parts = {name: old.read(name) for name in old.namelist()}
        for name, edit in edits.items():
            parts[name] = edit(parts.get(name, b""))
        for name, text in parts.items():
            new.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def with_cell(data: bytes, cell: str) -> bytes:
    """Return the workbook ``data`` with the XML of one more ``cell`` in a last row of its first sheet."""
    row, end = f"<row>{cell}</row>".encode(), b"</sheetData>"
    return edited(data, {SHEET: lambda text: text.replace(end, row + end)})


def with_state(data: bytes, title: str, state: str) -> bytes:
    name, state = f'name="{title}"', f' state="{state}"'
    return edited(
        data, {"xl/workbook.xml": lambda text: text.replace(name.encode(), (name + state).encode())}
    )
