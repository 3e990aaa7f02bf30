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
GROUPED = r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}"  # the sign may separate thousands


@dataclass(frozen=True)
class Sheet:
    title: str
    is_one_of_several: bool  # visible ones, of which none was chosen
    csv: str  # its cells, separated by commas, from row 1 and the first column with a cell
    texts: frozenset[int]  # columns in which text may be a number with a separator of thousands


def is_spreadsheet(data: bytes) -> bool:
    """Return whether ``data`` starts like a spreadsheet, or another archive."""
    return data.startswith((_ZIP, _COMPOUND))


def read_sheet(name: str, data: bytes, title: str | None = None) -> Sheet:
    """Return a sheet of a workbook, ``data`` of the file ``name``: by default the first visible one.

    Of a `routes.xlsx` it is the sheet of stops. Cells are written as in `cell_text`; a formula has the value
    that it had when the file was saved, "" for an error. Other sheets are not opened. McvrpError if it is not
    a workbook, has a password or merged rows, is too large, or has no such sheet with content.
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
    read, is_one_of_several, texts = json.loads(facts)
    return Sheet(read, is_one_of_several, text, frozenset(texts))


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
    titles = visible if wanted is None else [each.name for each in worksheets]
    is_ours = visible[:1] == [OVERVIEW] and STOPS in visible
    title = wanted or (STOPS if is_ours else next(iter(visible), ""))
    if title not in titles:
        raise McvrpError(f"has no sheet {shown(title)}: name one of {listed(map(shown, titles))}")
    sheet = book.get_sheet_by_name(title)
    if sheet.end is None:
        raise McvrpError(f"has no content in sheet {shown(title)}: name another sheet (--sheet)")
    if (size := (sheet.end[0] + 1) * sheet.width) > _MOST_CELLS:
        where = f"up to the last one of sheet {shown(title)}"
        raise McvrpError(f"has {size:,} cells {where}, more than {_MOST_CELLS:,}: {_BEYOND}, or split it")
    for (first, _), (last, _) in sheet.merged_cell_ranges or ():
        if last > first:  # all rows but the first would lack the content
            where = f"rows {first + 1} to {last + 1} of sheet {shown(title)}"
            raise McvrpError(f"has cells that are merged over {where}: split the cells, and fill in each row")
    buffer, texts = io.BytesIO(), set[int]()
    with io.TextIOWrapper(buffer, "utf-8", newline="", write_through=True) as text:
        writer = csv.writer(text)
        for row in sheet.iter_rows():
            # a lone return is not quoted by Python before 3.13, but ends a row
            writer.writerow([cell_text(cell).replace("\r", "\n") for cell in row])
            strings = {k: cell.strip() for k, cell in enumerate(row) if isinstance(cell, str)}
            texts.update(k for k, cell in strings.items() if re.fullmatch(GROUPED, cell))
        facts = json.dumps([title, wanted is None and not is_ours and len(visible) > 1, sorted(texts)])
        return f"{facts}\n".encode() + buffer.getvalue()


if __name__ == "__main__":
    main()
