"""Spreadsheets that people bring (.xlsx, .xlsm, .xlsb, .xls, .ods) as cells of text, read by calamine."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

import python_calamine

from mcvrp.model.errors import McvrpError, reason

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ZIP, _COMPOUND = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # how files of today begin, and .xls
_CORRUPT = (OSError, ValueError, NotImplementedError)  # what a zip file with other bytes raises
_MOST_BYTES = 500_000_000  # unpacked: a small archive may hold anything


@dataclass(frozen=True)
class Sheet:
    """A sheet of a workbook: its title, its rows of text from row 1 on, and the other sheets with content."""

    title: str
    rows: Sequence[Sequence[str]]
    others: tuple[str, ...]


def is_spreadsheet(data: bytes) -> bool:
    """Return whether ``data`` begin as a spreadsheet does, or as another archive."""
    return data.startswith((_ZIP, _COMPOUND))


def first_sheet(name: str, data: bytes) -> Sheet:
    """Return the first sheet with content of the workbook ``data``, the bytes of the file ``name``.

    Numbers are written as briefly as they are exact, dates as 2026-01-31; a formula is what it came to
    when the file was saved.

    Raises
    ------
    McvrpError
        If it is no workbook, has a password, is too large or empty.
    """
    try:
        if data.startswith(_ZIP):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                size = sum(part.file_size for part in archive.infolist())
            if size > _MOST_BYTES:
                raise McvrpError(
                    f"{name} has {size:,} bytes when unpacked, {_MOST_BYTES:,} are the most: split it"
                )
        with python_calamine.load_workbook(io.BytesIO(data)) as book:
            sheets = {
                title: book.get_sheet_by_name(title).to_python(skip_empty_area=False)
                for title in book.sheet_names
            }
    except python_calamine.PasswordError as error:
        raise McvrpError(f"{name} has a password: save it without one") from error
    except (python_calamine.CalamineError, zipfile.BadZipFile, *_CORRUPT) as error:
        raise McvrpError(
            f"{name} is no whole spreadsheet ({reason(error)}): save it again, or as CSV"
        ) from error
    texts = {title: [[_text(cell) for cell in row] for row in rows] for title, rows in sheets.items()}
    filled = [title for title, rows in texts.items() if any(any(row) for row in rows)]
    if not filled:
        raise McvrpError(f"{name} is a spreadsheet without content: save the table into its first sheet")
    return Sheet(filled[0], texts[filled[0]], tuple(filled[1:]))


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(" ")
    return str(cell).strip()
