"""What stands in the cells of a benchmark's table, and the table as CSV and Markdown.

The paper's own figure, where there is one, stands in brackets behind ours, in CSV in columns of
its own. `tasks.table_latex` and `tasks.table_html` write the same cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tasks.durations import format_seconds
from tasks.tables import Line, Range, Table

_HEADINGS = (
    "N",
    "Method",
    "Wins",
    "Obj. avg.",
    "Obj. 80 %",
    "Gap avg. (%)",
    "Gap 80 % (%)",
    "Time",
    "Run on",
)
_WINS = 2  # its place among the headings
BASELINE = "baseline"
_NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """What stands in a cell: our text, the paper's ("" for none), and what to sort by."""

    text: str
    paper: str = ""
    value: float | str | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.paper})" if self.paper else self.text


def headings(table: Table) -> tuple[str, ...]:
    """Return the columns' headings."""
    return tuple(h for k, h in enumerate(_HEADINGS) if table.has_wins or k != _WINS)


def cells(table: Table, line: Line) -> tuple[Cell, ...]:
    """Return what stands in each column of ``line``, in the order of `headings`."""
    d, paper = table.decimals, line.published

    def spread(ours: Range | None, theirs: Range | None) -> tuple[Cell, Cell]:
        """Return the cells of a mean and of its range; the paper has two decimals, and dashes."""
        mean, span = (_mean(theirs, 2), _span(theirs, 2)) if paper else ("", "")
        return (
            Cell(_mean(ours, d), mean, ours.mean if ours else None),
            Cell(_span(ours, d), span, ours.low if ours else None),
        )

    gap = spread(line.gap, paper.gap if paper else None)
    if line.is_baseline:
        gap = (Cell(BASELINE), Cell("")) if line.gap else (Cell(_NOTHING), Cell(_NOTHING))
    won = _NOTHING if line.wins is None else str(line.wins)
    won_there = "" if paper is None or paper.wins is None else str(paper.wins)
    seconds = _NOTHING if line.seconds is None else format_seconds(line.seconds)
    seconds_there = "" if paper is None or paper.seconds is None else format_seconds(paper.seconds)
    every = (
        Cell(str(line.n), value=line.n),
        Cell(line.name, value=line.name),
        Cell(won, won_there, line.wins),
        *spread(line.cost, paper.cost if paper else None),
        *gap,
        Cell(seconds, seconds_there, line.seconds),
        Cell(line.run_on, value=line.run_on),
    )
    return tuple(cell for k, cell in enumerate(every) if table.has_wins or k != _WINS)


def _mean(values: Range | None, decimals: int) -> str:
    return _NOTHING if values is None else _fixed(values.mean, decimals)


def _span(values: Range | None, decimals: int) -> str:
    if values is None:
        return _NOTHING
    return f"{_fixed(values.low, decimals)} – {_fixed(values.high, decimals)}"


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text  # no "-0.00"


def has_papers_figures(table: Table) -> bool:
    """Return whether any line has a figure of the paper."""
    return any(line.published for line in table.lines)


def to_frame(table: Table) -> pd.DataFrame:
    """Return the table's numbers at full precision, one row a line; missing is NaN."""
    rows = []
    for line in table.lines:
        row = {
            "n": line.n,
            "method": line.method,
            "samples": line.samples,
            "instances": line.instances,
            "failed": line.failed,
            **_numbers("", line.wins, line.cost, line.gap, line.seconds),
            "run_on": line.run_on,
            "failure": line.failure,
        }
        if has_papers_figures(table):
            there = line.published
            row |= _numbers("paper_", *(there.wins, there.cost, there.gap, there.seconds) if there else ())
        rows.append(row)
    return pd.DataFrame(rows)


def _numbers(
    prefix: str,
    wins: int | None = None,
    cost: Range | None = None,
    gap: Range | None = None,
    seconds: float | None = None,
) -> dict[str, float]:
    nothing = Range(np.nan, np.nan, np.nan)
    numbers = {
        "wins": np.nan if wins is None else wins,
        **{f"cost_{k}": v for k, v in _columns(cost or nothing)},
        **{f"gap_{k}": v for k, v in _columns(gap or nothing)},
        "seconds": np.nan if seconds is None else seconds,
    }
    return {prefix + name: value for name, value in numbers.items()}


def _columns(values: Range) -> tuple[tuple[str, float], ...]:
    return ("mean", values.mean), ("p10", values.low), ("p90", values.high)


def to_csv(table: Table) -> str:
    """Return the numbers at full precision as CSV."""
    return to_frame(table).to_csv(index=False, lineterminator="\n")


def to_markdown(table: Table) -> str:
    """Return the table as GitHub Markdown, the notes as a list below."""

    def row(values: Sequence[str]) -> str:
        return "| " + " | ".join(v.replace("|", r"\|") for v in values) + " |"

    rule = "|" + "|".join("---" if h in ("Method", "Run on") else "--:" for h in headings(table)) + "|"
    body = [row([str(cell) for cell in cells(table, line)]) for line in table.lines]
    notes = [f"- {note}" for note in (*table.notes, *table.conditions)]
    return "\n".join([f"**{table.caption}**", "", row(headings(table)), rule, *body, "", *notes]) + "\n"
