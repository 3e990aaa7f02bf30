"""A table of the benchmark as an HTML fragment: a group of rows a size, to sort within and to fold away."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from tasks.table_formats import Cell, cells, headings
from tasks.tables import Line, Start, Table, starts


def to_html(table: Table) -> str:
    """Return the table in a scrolling box, its notes below, how each method ran folded away.

    Cells carry what to sort by. Everything shows without a script; the page's adds the buttons.
    """
    columns = headings(table)[1:]  # the size is each group's own heading
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in columns)
    pairs = zip(table.lines, starts(table), strict=True)
    groups = [_group(table, n, list(lines)) for n, lines in groupby(pairs, key=lambda pair: pair[0].n)]
    return (
        f'<div class="scroll"><table class="sortable" id="{escape(table.name)}">'
        f"<caption><span>{escape(table.caption)}</span></caption>"
        f"<thead><tr>{head}</tr></thead>{''.join(groups)}</table></div>"
        f"{notes_html(table.notes)}{_conditions(table.conditions)}"
    )


def notes_html(notes: Sequence[str]) -> str:
    """Return ``notes`` as a list."""
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>'


def _conditions(conditions: Sequence[str]) -> str:
    if not conditions:
        return ""
    summary = f"How each of {len(conditions)} methods ran: configuration, seeds, processors, other work"
    return f'<details class="conditions"><summary>{summary}</summary>{notes_html(conditions)}</details>'


def _group(table: Table, n: int, lines: Sequence[tuple[Line, Start]]) -> str:
    """Return the rows of one size below a heading that spans them."""
    instances = max(line.instances for line, _ in lines)
    title = f"N = {n} <small>{instances:,} instance{'' if instances == 1 else 's'}</small>"
    span = len(headings(table)) - 1
    rows = [_row(cells(table, line)[1:], start) for line, start in lines]
    heading = f'<tr class="size"><th scope="rowgroup" colspan="{span}"><span>{title}</span></th></tr>'
    return f"<tbody>{heading}{''.join(rows)}</tbody>"


def _row(row: Sequence[Cell], start: Start) -> str:
    kind = f' class="{start.value}"' if start in (Start.GROUP, Start.BEYOND) else ""
    method, *figures = row
    name = f'<th scope="row"{_value(method)}>{_together(escape(method.text))}</th>'
    return f"<tr{kind}>{name}{''.join(map(_cell, figures))}</tr>"


def _together(text: str) -> str:
    """Return ``text`` with a number of samples that no line breaks apart."""
    return text.replace("s = ", "s\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def _cell(cell: Cell) -> str:
    paper = f" <small>({escape(cell.paper)})</small>" if cell.paper else ""
    return f"<td{_value(cell)}>{escape(cell.text)}{paper}</td>"


def _value(cell: Cell) -> str:
    return "" if cell.value is None else f' data-value="{escape(str(cell.value))}"'
