"""Spreadsheets (.xlsx, .xlsm, .xlsb, .xls, .ods) as CSV, read by calamine.

Calamine allocates all cells up to the last one of a sheet, and a failed allocation aborts the process. A
file is therefore read once, by a child process with limits of memory and CPU time.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass

import psutil
import python_calamine as calamine

from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.tasks.support.text import listed

OVERVIEW, ROUTE, STOPS = "Overview", "Route", "Stops"  # sheets of `routes.xlsx`: first, of routes, last
ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ZIP, _COMPOUND = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # first bytes of .xlsx and .ods, and of .xls
_MEMORY = 700 * 2**20  # bytes that the reader may allocate
_SECONDS = 10  # CPU time
_MOST_CELLS = 6_300_000  # up to the last one of a sheet: six full columns of Excel
_REFUSED = 3  # exit code; Python itself uses 1 and 2
_BEYOND = "delete all rows and columns beyond the table"
_CONTENT = "content.xml"  # of an .ods
_SPANNED = re.compile(rb'table:number-rows-spanned="(?!1")')
_LIKE_NUMBER = re.compile(r"\s*[+-]?[0-9.,]+\s*")


@dataclass(frozen=True)
class Sheet:
    title: str
    others: tuple[str, ...]  # titles of the visible sheets after it, if it was not chosen by its title
    csv: str  # its cells, separated by commas, from row 1 and the first column with a cell
    texts: frozenset[int] = frozenset()  # columns in which text looks like a number


def is_spreadsheet(data: bytes) -> bool:
    """Return whether ``data`` starts like a spreadsheet, or another archive."""
    return data.startswith((_ZIP, _COMPOUND))


def read_sheet(name: str, data: bytes, title: str | None = None) -> Sheet:
    """Return a sheet of a workbook, ``data`` of the file ``name``: by default the first visible with content.

    Cells are written as in `cell_text`; a formula has the value that it had when the file was saved, "" for
    an error. Other sheets are not opened. McvrpError if it is not a workbook, has a password or merged rows,
    is too large, or has no such sheet with content.
    """
    try:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            command = [sys.executable, "-P", "-m", "mcvrp.tasks.files.spreadsheet"]
            command += [] if title is None else [title]
            done = subprocess.run(command, stdin=file, capture_output=True)
    except OSError as error:
        hint = "check this machine's memory and temporary folder, and try again"
        raise McvrpError(f"{name} could not be read ({reason(error)}): {hint}") from error
    if done.returncode == _REFUSED:
        raise McvrpError(f"{name} {done.stdout.decode()}")
    if done.returncode:
        raise McvrpError(
            f"{name} could not be read (exit code {done.returncode}): maybe a cell far from the table takes "
            f"more than {_MEMORY >> 20} MiB or {_SECONDS} s of CPU time; {_BEYOND}, or save it as CSV"
        )
    facts, _, text = done.stdout.decode().partition("\n")
    read, others, texts = json.loads(facts)
    return Sheet(read, tuple(others), text, frozenset(texts))


def cell_text(cell: object) -> str:
    """Return the text of a typed cell: numbers in their shortest exact form, dates like 2026-01-31."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:  # integers with gaps are floats
        return str(int(cell))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    return str(cell).strip()


def main() -> None:
    """Write the sheet, an argument, of the workbook on stdin to stdout, or an error message."""
    _limit()
    try:
        with calamine.load_workbook("/dev/stdin") as book:
            sys.stdout.buffer.write(_sheet(book, *sys.argv[1:]))
        return
    except MemoryError:
        os.abort()  # as calamine does, so that both are reported alike
    except McvrpError as error:
        text = str(error)
    except BaseException as error:  # a panic of calamine is not an Exception
        why = brief(reason(error), 120)
        text = f"is not a valid spreadsheet ({why}): save it again without a password, or as CSV"
    sys.stdout.buffer.write(text.encode())
    sys.exit(_REFUSED)


def _limit() -> None:
    limits = {
        # what it has allocated before depends on the number of cores
        resource.RLIMIT_DATA: psutil.Process().memory_info().data + _MEMORY,
        resource.RLIMIT_CPU: _SECONDS,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _sheet(book: calamine.CalamineWorkbook, wanted: str | None = None) -> bytes:
    """Return a sheet, see `read_sheet`: its facts in a line of JSON, then its cells as CSV."""
    worksheets = [each for each in book.sheets_metadata if each.typ == calamine.SheetTypeEnum.WorkSheet]
    visible = [each.name for each in worksheets if each.visible == calamine.SheetVisibleEnum.Visible]
    titles = [each.name for each in worksheets]
    if wanted is not None and wanted not in titles:
        raise McvrpError(f"has no sheet {shown(wanted)}: name one of {listed(map(shown, titles))}")
    candidates = visible if wanted is None else [wanted]
    for place, title in enumerate(candidates, start=1):
        sheet = book.get_sheet_by_name(title)
        if sheet.end is None:
            continue
        if (size := (sheet.end[0] + 1) * sheet.width) > _MOST_CELLS:
            where = f"up to the last one of sheet {shown(sheet.name)}"
            raise McvrpError(f"has {size:,} cells {where}, more than {_MOST_CELLS:,}: {_BEYOND}, or split it")
        buffer, filled, texts = io.BytesIO(), False, set[int]()
        with io.TextIOWrapper(buffer, "utf-8", newline="", write_through=True) as text:
            writer = csv.writer(text)
            for row in sheet.iter_rows():
                # a lone return is not quoted by Python before 3.13, but ends a row
                cells = [cell_text(cell).replace("\r", "\n") for cell in row]
                writer.writerow(cells)
                filled = filled or any(cells)
                texts |= {
                    k for k, cell in enumerate(row) if isinstance(cell, str) and _LIKE_NUMBER.fullmatch(cell)
                }
            if filled:
                _refuse_merged(sheet)
                facts = json.dumps([title, candidates[place:], sorted(texts)])
                return f"{facts}\n".encode() + buffer.getvalue()
    if wanted is not None:
        raise McvrpError(f"has no content in sheet {shown(wanted)}: name another sheet")
    hidden = ", or unhide its sheet" if worksheets[len(visible) :] else ""
    raise McvrpError(f"has no visible sheet with content: save the table in the first sheet{hidden}")


def _refuse_merged(sheet: calamine.CalamineSheet) -> None:
    """Raise McvrpError for cells that are merged over several rows: all but the first would lack content.

    Those of .ods are not told apart by sheet, those of .xlsb not recognized.
    """
    hint = "split the cells, and fill in each row"
    for (first, _), (last, _) in sheet.merged_cell_ranges or ():
        if last > first:
            where = f"rows {first + 1} to {last + 1} of sheet {shown(sheet.name)}"
            raise McvrpError(f"has cells that are merged over {where}: {hint}")
    if zipfile.is_zipfile("/dev/stdin"):
        with zipfile.ZipFile("/dev/stdin") as archive:
            if _CONTENT in archive.namelist() and _SPANNED.search(archive.read(_CONTENT)):
                raise McvrpError(f"has cells that are merged over several rows: {hint}")


if __name__ == "__main__":
    main()
