"""Spreadsheets (.xlsx, .xlsm, .xlsb, .xls, .ods) as cells of text, read by calamine.

Calamine allocates all cells up to the last one of a sheet, and a failed allocation aborts the process. It
therefore runs in a child process with limits of memory and CPU time.
"""

from __future__ import annotations

import datetime
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import zipfile
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from xml.parsers import expat

import psutil
import pyarrow as pa
import python_calamine as calamine

from mcvrp.model.errors import McvrpError, brief, reason, shown
from mcvrp.tasks.files.file_bytes import MOST_BYTES
from mcvrp.tasks.support.processes import die_with_parent

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_ZIP, _COMPOUND = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # first bytes of .xlsx and .ods, and of .xls
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # stream of a compound file with a password
_MEMORY = 700 * 2**20  # bytes that the reader may allocate
_SECONDS = 10  # CPU time
_HANG = 600.0  # seconds, for a busy machine
_MOST_CELLS = 6_300_000  # up to the last one of a sheet: six full columns of Excel
_BATCH = 50_000  # cells
_NUMBER = (int, float)
_REFUSED = 3  # exit code; Python itself uses 1 and 2
_LOCKED = "has a password: save it without a password"


Area = tuple[tuple[int, int], tuple[int, int]]  # first and last row and column of merged cells, from 0


class ReaderStopped(McvrpError):
    """The reader process was stopped from outside; the file may be valid."""


@dataclass(frozen=True)
class Sheet:
    title: str
    others: tuple[str, ...]  # titles of the visible sheets after it, which were not read
    cells: pa.Table  # text, "" if empty, from row 1 and the first column with a cell
    numeric: tuple[int, ...]  # columns of ``cells`` with numbers, which may be shown in another form


def is_spreadsheet(data: bytes) -> bool:
    """Return whether ``data`` starts like a spreadsheet, or another archive."""
    return data.startswith((_ZIP, _COMPOUND))


def first_sheet(name: str, data: bytes) -> Sheet:
    """Return the first visible sheet with content of a workbook, ``data`` of the file ``name``.

    Numbers have their shortest exact form, dates are written like 2026-01-31; a formula has the value that it
    had when the file was saved, "" for an error. Hidden and later sheets are not opened. McvrpError if it is
    not a workbook, has a password, is too large, has no visible content, or crashes its reader; ReaderStopped
    if the reader could not run, or was stopped from outside.
    """
    try:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            done = subprocess.run(
                [sys.executable, "-m", "mcvrp.tasks.files.spreadsheet"],
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_HANG,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = reason(error) if isinstance(error, OSError) else f"no answer in {_HANG:.0f} s"
        hint = "check this machine's memory and temporary folder, and try again"
        raise ReaderStopped(f"{name} could not be read ({why}): {hint}") from error
    if done.returncode == _REFUSED:
        encrypted = data.startswith(_COMPOUND) and _ENCRYPTED in data
        raise McvrpError(f"{name} {_LOCKED if encrypted else done.stdout.decode()}")
    if done.returncode:
        raise _death(name, done.returncode)
    table = pa.ipc.open_stream(done.stdout).read_all()
    facts = json.loads(table.schema.metadata[b"sheet"])
    return Sheet(facts["title"], tuple(facts["others"]), table, tuple(facts["numeric"]))


def _death(name: str, code: int) -> McvrpError:
    if code == -signal.SIGXCPU:
        return McvrpError(f"{name} takes more than {_SECONDS} s of CPU time to read: save it as CSV")
    if code > 0 or -code in (signal.SIGKILL, signal.SIGTERM):
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        hint = "check this machine's memory, and try again"
        return ReaderStopped(f"{name} could not be read (its reader was stopped, {how}): {hint}")
    return McvrpError(
        f"{name} needs more than {_MEMORY >> 20} MiB to read ({signal.Signals(-code).name}), probably "
        "because of a cell far from the table: delete all rows and columns beyond the table (Ctrl+End goes "
        "to the last cell), or save it as CSV"
    )


def main() -> None:
    """Write the sheet of the workbook on stdin to stdout, or an error message."""
    _limit()
    try:
        with calamine.load_workbook("/dev/stdin") as book:
            table = _sheet(book)
        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as writer:
            writer.write_table(table)
        return
    except MemoryError:
        os.abort()  # as calamine does, so that both are reported alike
    except calamine.PasswordError:
        text = _LOCKED
    except McvrpError as error:
        text = str(error)
    except BaseException as error:  # a panic of calamine is not an Exception
        text = f"is not a valid spreadsheet ({brief(reason(error), 120)}): save it again, or as CSV"
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


def _sheet(book: calamine.CalamineWorkbook) -> pa.Table:
    """Return the cells of the first visible sheet with content, with the rest of `Sheet` as metadata."""
    worksheets = [each for each in book.sheets_metadata if each.typ == calamine.SheetTypeEnum.WorkSheet]
    visible = [each.name for each in worksheets if each.visible == calamine.SheetVisibleEnum.Visible]
    for place, title in enumerate(visible, start=1):
        sheet = book.get_sheet_by_name(title)
        if sheet.end is None:
            continue
        _require_size(sheet, sheet.end[0] + 1)
        schema = pa.schema([(str(column), pa.string()) for column in range(sheet.width)])
        batches, filled, size, numeric = list[pa.RecordBatch](), False, 0, set[int]()
        rows, count = sheet.iter_rows(), max(1, _BATCH // sheet.width)
        while chunk := list(islice(rows, count)):
            cells = list(zip(*chunk, strict=True))
            numeric |= {k for k, column in enumerate(cells) if any(isinstance(c, _NUMBER) for c in column)}
            columns = [[_text(cell) for cell in column] for column in cells]
            filled = filled or any(map(any, columns))
            batches.append(
                pa.RecordBatch.from_arrays([_strings(column) for column in columns], schema=schema)
            )
            size += batches[-1].nbytes
            if size > MOST_BYTES:
                raise McvrpError(f"has more than {MOST_BYTES:,} bytes in sheet {shown(title)}: split it")
        if filled:
            facts = {"title": title, "others": visible[place:], "numeric": sorted(numeric)}
            table = pa.Table.from_batches(batches, schema.with_metadata({"sheet": json.dumps(facts)}))
            _refuse_merged(sheet, table)
            return table
    hidden = ", or unhide its sheet" if worksheets[len(visible) :] else ""
    raise McvrpError(f"has no visible sheet with content: save the table in the first sheet{hidden}")


def _refuse_merged(sheet: calamine.CalamineSheet, cells: pa.Table) -> None:
    """Raise McvrpError for content that is merged over several rows: all but the first would lack it.

    Merged cells of .xlsb are not recognized.
    """
    areas = sheet.merged_cell_ranges
    assert sheet.start is not None
    for (first, column), (last, _) in _merged_in_ods(sheet.name) if areas is None else areas:
        place = column - sheet.start[1]
        inside = 0 <= place < cells.num_columns and first < cells.num_rows
        if last > first and inside and (text := cells.column(place)[first].as_py()):
            raise McvrpError(
                f"has {shown(text)} merged over rows {first + 1} to {last + 1} of sheet "
                f"{shown(sheet.name)}: split the cell, and fill in each row"
            )


def _merged_in_ods(title: str) -> list[Area]:
    """Return the cells of the sheet ``title`` that span several rows; none if stdin is not an .ods."""
    areas = list[Area]()
    inside, row, column = False, -1, 0  # the last row so far, the next column

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        nonlocal inside, row, column
        if tag == "table:table":
            inside = attributes.get("table:name") == title
        elif inside and tag == "table:table-row":
            row, column = row + int(attributes.get("table:number-rows-repeated", 1)), 0
        elif inside and tag in ("table:table-cell", "table:covered-table-cell"):
            if (rows := int(attributes.get("table:number-rows-spanned", 1))) > 1:
                areas.append(((row, column), (row + rows - 1, column)))
            column += int(attributes.get("table:number-columns-repeated", 1))

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with zipfile.ZipFile("/dev/stdin") as archive:
        if "content.xml" in archive.namelist():
            with archive.open("content.xml") as content:
                parser.ParseFile(content)
    return areas


def _require_size(sheet: calamine.CalamineSheet, rows: int) -> None:
    cells = rows * sheet.width
    if cells > _MOST_CELLS:
        raise McvrpError(
            f"has {cells:,} cells up to the last one of sheet {shown(sheet.name)} ({rows:,} rows, "
            f"{sheet.width:,} columns), more than {_MOST_CELLS:,}: delete all rows and columns beyond the "
            "table, or split it"
        )


def _strings(texts: list[str]) -> pa.StringArray:
    parts = [text.encode() for text in texts]  # `pa.array` imports pandas, which takes a second
    ends = array("i", accumulate(map(len, parts), initial=0))
    return pa.StringArray.from_buffers(len(parts), pa.py_buffer(ends), pa.py_buffer(b"".join(parts)))


def _text(cell: object) -> str:
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(" ")
    return str(cell).strip()


if __name__ == "__main__":
    main()
