"""Workbooks written by hand, of Excel and LibreOffice: as few parts as are accepted."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

Rows = Sequence[Any]
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
DAY = "day"  # in place of a number: the cell (DAY, 46053) is a date, days since 1899-12-30


def xlsx(sheets: Mapping[str, Rows]) -> bytes:
    """Return a workbook with ``sheets``, the same bytes each time; (DAY, number) is a date."""
    titles = list(enumerate(sheets, start=1))
    entries = "".join(f'<sheet name="{escape(t)}" sheetId="{k}" r:id="r{k}"/>' for k, t in titles)
    links = "".join(
        f'<Relationship Id="r{k}" Type="{_LINKS}/worksheet" Target="s{k}.xml"/>' for k, _ in titles
    )
    links += f'<Relationship Id="styles" Type="{_LINKS}/styles" Target="styles.xml"/>'
    root = f'<Relationship Id="r1" Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/>'
    book = f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets>{entries}</sheets></workbook>'
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}">{root}</Relationships>',
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}">{links}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>',
        **{f"xl/s{k}.xml": _sheet(sheets[title]) for k, title in titles},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in parts.items():
            # without the clock: cases are named by their bytes, which all test processes have to agree on
            archive.writestr(zipfile.ZipInfo(name), f'<?xml version="1.0" encoding="UTF-8"?>{text}')
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
    return edited(data, {"xl/s1.xml": lambda text: text.replace(end, row + end)})


def with_state(data: bytes, title: str, state: str) -> bytes:
    name, state = f'name="{title}"', f' state="{state}"'
    return edited(
        data, {"xl/workbook.xml": lambda text: text.replace(name.encode(), (name + state).encode())}
    )


def _sheet(rows: Rows) -> str:
    lines = "".join(
        f'<row r="{k}">{"".join(_cell(f"{chr(65 + j)}{k}", cell) for j, cell in enumerate(row))}</row>'
        for k, row in enumerate(rows, start=1)
    )
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>'


def _cell(place: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f'<c r="{place}" s="1"><v>{value[1]}</v></c>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'
