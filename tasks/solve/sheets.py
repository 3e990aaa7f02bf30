"""Workbook of a day, with one sheet per vehicle to print for its driver."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import pandas as pd
from xlsxwriter import Workbook

from mcvrp.tasks.files.cells import Number
from mcvrp.tasks.files.spreadsheet import OVERVIEW, ROUTE, STOPS
from mcvrp.tasks.solve.day import Solved
from mcvrp.tasks.solve.outputs import stop_table, unserved_table
from mcvrp.tasks.solve.stops import (
    Stop,
    day_text,
    measure,
    printed_columns,
    shift_texts,
    shortened,
    stops_of,
)
from mcvrp.tasks.support.pictures import in_unit
from mcvrp.tasks.support.text import counted, is_seconds, length_text, readable_unit

_TEXT = 300  # characters of a text
_UPRIGHT, _WIDEST = 7, 40  # columns of a sheet in portrait, characters of a column
_LINE = 15  # points from one line of text to the next
_FRAME = "#BFBFBF"
_LEFT_OUT = "Left out"  # sheet of the unserved customers
_TAB = 31  # characters of the name of a sheet in Excel
_BOX = "☐"  # to tick
_A4 = 9  # number of the paper size in a workbook
_HEADER = 3  # row of the header of a table, below two lines of text
_CREATED = datetime.datetime(2000, 1, 1)  # equal routes are equal files

Cell = str | int | float


@dataclass(frozen=True)
class _Sheet:
    """Table of a vehicle with one row per stop, or of the day with one row per vehicle."""

    title: str
    facts: str
    header: list[str]
    rows: list[list[Cell]]
    day: str


def _sheets(solved: Solved) -> list[_Sheet]:
    """Return the overview, and the sheet of each route."""
    planned, routes, unit = solved.planned, stops_of(solved), solved.planned.city.unit
    further = printed_columns(solved)
    what, capacity = measure(planned.city), planned.day.instance.capacity
    factor, name = readable_unit(unit, max(stops[-1].cumulative_cost for stops in routes))
    clock = planned.spec.start_time is not None
    decimals: int | None = 2
    if is_seconds(planned.city.unit):
        factor, name, decimals = 1 / 60, "min", None  # 16.17 minutes would be read as 16 min 17 s
    numbers = ["Demand", "Load left", f"From stop before{in_unit(name)}"]
    numbers += ["Arrival", "Departure"] if clock else [f"Since the depot{in_unit(name)}"]
    numbers += ["Done"]
    day = day_text(planned.date)
    header = ["Stop", "Customer", *further, *numbers]
    title = f"{planned.day.source}, city {planned.city_name}"
    sheets, totals = list[_Sheet](), list[list[Cell]]()
    times = shift_texts(solved) or len(routes) * [""]
    for stops, time in zip(routes, times, strict=True):
        load, price, number = stops[-1].load_after, stops[-1].cumulative_cost, f"{ROUTE} {stops[0].of_route}"
        share = 100 * load / capacity
        totals.append([number, len(stops) - 2, load, capacity, round(share, 1)])
        totals[-1] += [round(price * factor, decimals), *([str(stops[-1].arrival)] if clock else [])]
        facts = f"{counted(len(stops) - 2, 'stop')}, load {load:,} of {capacity:,} ({share:.0f} %)"
        rows = [
            [
                stop.stop if 0 < stop.stop < len(stops) - 1 else "depot",
                stop.customer,
                *(shortened(texts.get(stop.node, ""), _TEXT) for texts in further.values()),
                stop.demand,
                load - stop.load_after,
                round(stop.leg_cost * factor, decimals),
                *_since_depot(stop, factor, decimals),
                _BOX if 0 < stop.stop < len(stops) - 1 else "",
            ]
            for stop in stops
        ]
        facts += f", {what} {length_text(price, unit)}" + (time and f", {time} with its stops")
        sheets.append(_Sheet(number, f"{title}: {facts}", header, rows, day))
    facts = f"{title}: {counted(len(routes), 'route')}, {what} {length_text(solved.cost, unit)}"
    columns = ["Route", "Stops", "Load", "Capacity", "Utilization (%)", f"{what.capitalize()}{in_unit(name)}"]
    columns += ["Back at"] if clock else []
    return [_Sheet(OVERVIEW, facts, columns, totals, day), *sheets]


def _since_depot(stop: Stop, factor: float, decimals: int | None) -> list[Cell]:
    """Return arrival and departure, or the minutes or the cost since the depot."""
    if stop.arrival or stop.departure:
        return [stop.arrival or "", stop.departure or ""]
    minutes = stop.arrival_minutes
    return [round(stop.cumulative_cost * factor if minutes is None else minutes, decimals)]


def workbook(solved: Solved) -> bytes:
    """Return the workbook (.xlsx): an overview, a sheet per vehicle for A4, all stops, who is left out."""
    buffer = io.BytesIO()
    # text that begins with "=" stays text
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with Workbook(buffer, options) as book:
        book.set_properties({"created": _CREATED})
        cell = {"text_wrap": True, "valign": "top", "border": 1, "border_color": _FRAME}
        bold, wrapped = book.add_format(cell | {"bold": True}), book.add_format(cell)
        sheets = _sheets(solved)
        tabs = zip(_tabs(sheets), sheets, strict=True)
        overview, *pages = (_add(book, tab, sheet, bold, wrapped) for tab, sheet in tabs)
        for row, (page, sheet) in enumerate(zip(pages, sheets[1:], strict=True), start=_HEADER + 1):
            overview.write_url(row, 0, f"internal:'{page.name}'!A1", string=sheet.title)
        tables = {STOPS: stop_table(solved)}
        if solved.unserved:
            tables[_LEFT_OUT] = unserved_table(solved)
        for tab, table in tables.items():
            page, rows = book.add_worksheet(tab), table.astype(object).itertuples(index=False)
            _add_table(page, 0, list(table.columns), rows, bold, wrapped)
    return buffer.getvalue()


def _typed(cell: Any) -> Any:
    """Return the content of a cell of a workbook: the value of a `Number`, "" for none."""
    return cell.value if isinstance(cell, Number) else "" if pd.isna(cell) else cell


def _tabs(sheets: Sequence[_Sheet]) -> list[str]:
    """Return the name of each sheet, a route's own one: unlike those of others, in what Excel accepts."""
    tabs, taken = list[str](), {STOPS.casefold(), _LEFT_OUT.casefold(), "history"}
    for sheet in sheets:
        name = re.sub(r"[^\w ()-]", "-", sheet.title)
        names = (name, *(f"{k} {name}" for k in range(2, len(sheets) + 4)))
        tabs.append(next(tab[:_TAB] for tab in names if tab[:_TAB].casefold() not in taken))
        taken.add(tabs[-1].casefold())
    return tabs


def _add(book: Workbook, tab: str, sheet: _Sheet, bold: Any, wrapped: Any) -> Any:
    """Add a sheet of `_sheets`."""
    page = book.add_worksheet(tab)
    page.write_string(0, 0, ", ".join(filter(None, [sheet.title, sheet.day])))
    page.write_string(1, 0, sheet.facts)
    _add_table(page, _HEADER, sheet.header, sheet.rows, bold, wrapped)
    return page


def _add_table(
    page: Any, top: int, header: list[str], rows: Iterable[Sequence[Any]], bold: Any, wrapped: Any
) -> None:
    """Write a table from row ``top`` on, which prints on A4 in full width with its header on each page."""
    page.set_paper(_A4)
    page.fit_to_pages(1, 0)
    page.set_margins(left=0.4, right=0.4)
    page.repeat_rows(top)
    page.freeze_panes(top + 1, 0)
    page.set_footer("&L&A&RPage &P of &N")
    if len(header) > _UPRIGHT:
        page.set_landscape()
    page.write_row(top, 0, header, bold)
    longest = [max(map(len, title.split())) for title in header]
    for k, row in enumerate(rows, start=top + 1):
        cells = [_typed(cell) for cell in row]
        page.write_row(k, 0, cells, wrapped)
        longest = [max(length, len(str(cell))) for length, cell in zip(longest, cells, strict=True)]
    for k, length in enumerate(longest):
        page.set_column(k, k, min(_WIDEST, length + 2))
    lines = max(len(wrap(title, length)) for title, length in zip(header, longest, strict=True))
    page.set_row(top, _LINE * lines)  # some programs do not adjust it
