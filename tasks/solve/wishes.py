"""Optional columns of orders: service times, priorities of customers who may be left out.

Other columns are carried into the routes; notes say what of them no route respects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mcvrp.tasks.files.file_bytes import Faults
from mcvrp.tasks.files.tabular import Tabular, column_key
from mcvrp.tasks.solve.spec import MOST_SECONDS, SolveSpec, seconds_with_unit
from mcvrp.tasks.support.text import listed, time_text, times_of_day

SERVICE, PRIORITY = ("service", "service_time", "service_duration"), "priority"
_OTHER_UNIT = re.compile(r"(?:.*[^a-z])?(?:min|minut\w*|h|hours?)[^a-z]*")  # at the end of a column's name


@dataclass(frozen=True)
class Wishes:
    """Service times and priorities of customers, by their nodes."""

    service: Mapping[int, float] = field(default_factory=dict)  # seconds at a customer, of all of its orders
    priority: Mapping[int, float] | None = None  # the highest of a customer's orders; None without a column
    columns: tuple[str, ...] = ()  # that are not carried into the routes as they are
    service_text: str = field(default="", compare=False)  # service times of the orders in words, if any


def read_wishes(table: Tabular, nodes: Sequence[int], spec: SolveSpec, faults: Faults) -> Wishes:
    """Return the columns that ``spec`` uses: service times if they count, priorities of those to leave out.

    ``nodes`` are the customers of the rows. Wrong cells are added to ``faults``. Raises McvrpError if several
    columns are of service times.
    """
    service, columns, title, text = dict[int, float](), list[str](), "service", ""
    priority: dict[int, float] | None = None
    if spec.timed:
        if column := table.column(*SERVICE):
            columns, title = [column], table.titles[column]
        seconds = _numbers(table, column, spec.service or 0.0, faults, durations=True)
        for row, node, number in zip(table.rows.tolist(), nodes, seconds, strict=True):
            service[node] = service.get(node, 0.0) + number if column else number  # once per stop
            if number < 0 or number > MOST_SECONDS:  # NaN is neither: that cell is reported already
                faults.at(row, f"{title} {number:.10g} is not 0 to {MOST_SECONDS:,} seconds")
        valid = [number for number in seconds if 0 <= number <= MOST_SECONDS] or [0.0]  # NaN is not
        text = " to ".join(dict.fromkeys([time_text(min(valid)), time_text(max(valid))]))
        text += " per order" if column else " per stop"
    if spec.drop and (column := table.column(PRIORITY)):
        priority = {}
        for node, number in zip(nodes, _numbers(table, column, 0.0, faults), strict=True):
            priority[node] = max(priority.get(node, number), number)
    return Wishes(service, priority, tuple(columns), text)


def _numbers(
    table: Tabular, column: str | None, empty: float, faults: Faults, *, durations: bool = False
) -> list[float]:
    """Return a column of numbers, ``empty`` for empty cells, and without a column.

    Those of ``durations`` may have a unit, and are returned in seconds.
    """
    values = np.full(len(table), empty)
    if column is None:
        return values.tolist()
    cells, expected = table.text(column), "a number"
    bare = cells != ""
    if durations:
        expected = "a number of seconds or a duration such as 2.5min"
        for k, cell in enumerate(cells):
            if (seconds := seconds_with_unit(cell.replace(table.dialect.decimal, "."))) is not None:
                values[k], bare[k] = seconds, False
    if bare.any():
        if durations and _OTHER_UNIT.fullmatch(table.titles[column].lower()):
            row, number = table.rows[bare.argmax()], f"{table.titles[column]} is {cells[bare.argmax()]}"
            faults.at(row, f"{number}, which would be seconds: give a unit, as in 3min")
        values[bare] = table.where(bare).numbers(column, faults, expected)
    return values.tolist()


def notes_on(
    table: Tabular, further: Mapping[str, Sequence[str]], wishes: Wishes, spec: SolveSpec
) -> Iterator[str]:
    """Yield what the ``further`` columns do not mean for the routes, even if they look like limits."""
    used = {table.titles[column] for column in [table.column(PRIORITY)] if column and spec.drop}
    further = {title: texts for title, texts in further.items() if title not in used}
    if not further:
        return
    fields = {table.titles[column]: name for name, column in table.called.items()}
    options = {title: _option(fields.get(title, column_key(title))) for title in further}
    unused = [f"{title} counts with {option} only" for title, option in options.items() if option]
    yield "; ".join([f"further columns of the orders, carried into the routes: {listed(further)}", *unused])
    yield from times_of_day(further)
    others = f"not used: {listed(further, most=10)} (if one of them has it, name it:"
    if spec.drop and wishes.priority is None:
        yield f"no column priority, so all customers are equally urgent; {others} --columns priority=NAME)"
    if spec.timed and spec.service is None and table.column(*SERVICE) is None:
        yield f"no column service, so stops take 0 s; {others} --columns service=NAME)"


def _option(column: str) -> str | None:
    """Return the option that an optional column of orders counts with, None for other columns."""
    return "--drop" if column == PRIORITY else "--shift and --start-time" if column in SERVICE else None
