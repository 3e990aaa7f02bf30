"""Sheets of a day for its drivers: a workbook and pages to print, both with one sheet per vehicle."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlsxwriter import Workbook
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from mcvrp.storage import markdown
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.map import colour
from mcvrp.tasks.solve.stops import Stop, further_columns, measure
from mcvrp.tasks.support.pictures import in_unit
from mcvrp.tasks.support.text import length_text, readable_unit

_MOST_FURTHER = 8  # columns of addresses and orders on a sheet: more could not be read on A4
_LONGEST_CELL = 300  # characters of a text on a sheet; routes.csv has all of them
_UPRIGHT = 7  # columns of a page in portrait; more need landscape
_WIDEST = 40  # characters of a column
_A4 = 9  # number of the paper size in a workbook
_CREATED = datetime.datetime(2000, 1, 1)  # equal routes are equal files
_HEADER_ROW = 3

Cell = str | int | float


@dataclass(frozen=True)
class _Sheet:
    """Sheet of a vehicle: a line of figures, and a row per stop."""

    route: int
    facts: str
    rows: list[list[Cell]]

    @property
    def title(self) -> str:
        return f"Route {self.route}"


@dataclass(frozen=True)
class _Day:
    """Text that all sheets share, and the sheets."""

    title: str
    header: list[str]
    sheets: list[_Sheet]
    unit: str  # for the header of a column of costs
    factor: float  # of costs in that unit


def _day(solved: Solved, routes: Sequence[Sequence[Stop]]) -> _Day:
    planned, summary = solved.planned, solved.summary
    further = dict(list(further_columns(planned).items())[:_MOST_FURTHER])
    factor, name = readable_unit(summary.unit, max(stops[-1].cumulative_cost for stops in routes))
    unit = f"{measure(planned.city)}{in_unit(name)}"
    sheets = []
    for stops in routes:
        load, capacity = stops[-1].load_after, summary.capacity
        facts = (
            f"{len(stops) - 2:,} stops, load {load:,} of {capacity:,} ({100 * load / capacity:.0f} %), "
            f"{measure(planned.city)} {length_text(stops[-1].cumulative_cost, summary.unit)}"
        )
        rows = [
            [
                stop.stop if 0 < stop.stop < len(stops) - 1 else "depot",
                stop.customer,
                *(_shortened(texts.get(stop.node, "")) for texts in further.values()),
                stop.demand,
                stop.load_after,
                *(round(value * factor, 3) for value in (stop.leg_cost, stop.cumulative_cost)),
            ]
            for stop in stops
        ]
        sheets.append(_Sheet(stops[0].route, facts, rows))
    header = ["Stop", "Customer", *further, "Demand", "Load so far"]
    header += [f"From stop before{in_unit(name)}", f"Since the depot{in_unit(name)}"]
    dated = f", {planned.date}" if planned.date else ""
    return _Day(f"{summary.orders}, city {summary.city}{dated}", header, sheets, unit, factor)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def pages(solved: Solved, routes: Sequence[Sequence[Stop]]) -> str:
    """Return the HTML document with a page per vehicle; ``routes`` are the stops, including the depot."""
    day = _day(solved, routes)
    return markdown.render(
        "mcvrp.tasks.solve",
        "routes.html.j2",
        title=day.title,
        header=day.header,
        sheets=day.sheets,
        colours=[colour(sheet.route - 1) for sheet in day.sheets],
    )


def workbook(solved: Solved, routes: Sequence[Sequence[Stop]]) -> bytes:
    """Return the workbook (.xlsx): an overview, and a sheet per vehicle that fits the width of A4."""
    day, buffer = _day(solved, routes), io.BytesIO()
    # text that begins with "=" stays text
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with Workbook(buffer, options) as book:
        book.set_properties({"created": _CREATED})
        bold, wrapped = book.add_format({"bold": True}), book.add_format({"text_wrap": True, "valign": "top"})
        head = book.add_format({"bold": True, "text_wrap": True, "bottom": 1, "valign": "top"})
        overview = _add(book, "Overview", day, f"{len(routes):,} routes", bold)
        header: list[str] = ["Route", "Stops", "Load", "Capacity", "Utilization (%)", day.unit.capitalize()]
        lines: list[list[Cell]] = []
        for sheet, stops in zip(day.sheets, routes, strict=True):
            load, capacity = stops[-1].load_after, solved.summary.capacity
            price = round(stops[-1].cumulative_cost * day.factor, 3)
            used = round(100 * load / capacity, 1)
            lines.append([sheet.title, len(stops) - 2, load, capacity, used, price])
            _fill(_add(book, sheet.title, day, sheet.facts, bold), day.header, sheet.rows, head, wrapped)
        _fill(overview, header, lines, head, wrapped)
        for row, sheet in enumerate(day.sheets, start=_HEADER_ROW + 1):
            overview.write_url(row, 0, f"internal:'{sheet.title}'!A1", string=sheet.title)
        total: list[Any] = ["All", *(sum(line[k] for line in lines) for k in (1, 2, 3))]  # type: ignore[misc]
        total += [round(100 * total[2] / total[3], 1), round(solved.summary.cost * day.factor, 3)]
        overview.write_row(_HEADER_ROW + 1 + len(lines), 0, total, bold)
    return buffer.getvalue()


def _add(book: Workbook, title: str, day: _Day, facts: str, bold: Format) -> Worksheet:
    """Add a sheet that prints on A4 in full width, with its header on each page."""
    sheet = book.add_worksheet(title)
    sheet.set_paper(_A4)
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(_HEADER_ROW)
    sheet.freeze_panes(_HEADER_ROW + 1, 0)
    sheet.set_footer("&L&A&RPage &P of &N")
    sheet.write_string(0, 0, title, bold)
    sheet.write_string(1, 0, f"{day.title}: {facts}")
    return sheet


def _fill(
    sheet: Worksheet, header: Sequence[str], rows: Sequence[Sequence[Cell]], head: Format, wrapped: Format
) -> None:
    if len(header) > _UPRIGHT:
        sheet.set_landscape()
    sheet.write_row(_HEADER_ROW, 0, header, head)
    for k, row in enumerate(rows, start=_HEADER_ROW + 1):
        sheet.write_row(k, 0, row, wrapped)
    for column, texts in enumerate(zip(*rows, strict=True)):
        longest = max(len(str(text)) for text in texts)
        sheet.set_column(column, column, min(_WIDEST, max(longest, 10) + 2))
