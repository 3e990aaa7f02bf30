"""What stands in the cells of a benchmark's table, and the table as CSV and Markdown.

The paper's own figure, where there is one, stands in brackets behind ours, in CSV in columns of
its own. `tasks.report.formats` and `tasks.report.formats` write the same cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

import numpy as np
import pandas as pd

from mcvrp.tasks.report.tables import Line, Range, Start, Table, starts
from mcvrp.tasks.support.text import format_seconds

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


# A table of the benchmark as an HTML fragment


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


# A table of the benchmark as LaTeX (booktabs, longtable)

PACKAGES = "% needs \\usepackage{booktabs,longtable,array}, and a text at least 17 cm wide"
_SIGNS = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "…": r"\ldots{}",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
}
_LAST_LETTER = "\u017f"  # pdfLaTeX has the European letters up to here without further packages
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def to_latex(table: Table) -> str:
    """Return the table as a LaTeX ``longtable``, notes below."""
    last = len(headings(table))
    first = 4 if table.has_wins else 3  # the column of the objective
    wins = "& " if table.has_wins else ""
    head = [
        "    \\toprule",
        f"    & & {wins}\\multicolumn{{2}}{{c}}{{Obj.}} & \\multicolumn{{2}}{{c}}{{Gap (\\%)}} & & \\\\",
        f"    \\cmidrule(lr){{{first}-{first + 1}}} \\cmidrule(lr){{{first + 2}-{first + 3}}}",
        f"    N & Method & {'Wins & ' if table.has_wins else ''}Avg. & 80\\,\\% range & Avg. "
        "& 80\\,\\% range & Time & Run on \\\\",
        "    \\midrule",
    ]
    columns = (
        f"@{{}}r>{{\\raggedright}}p{{5.2cm}}{'r' if table.has_wins else ''}rrrrr"
        ">{\\raggedright\\arraybackslash}p{3.2cm}@{}"
    )
    text = [
        PACKAGES,
        "\\begingroup\\scriptsize\\setlength{\\tabcolsep}{3pt}",
        f"\\begin{{longtable}}{{{columns}}}",
        f"    \\caption{{{latex_escape(table.caption)}}}\\\\",
        *head,
        "    \\endfirsthead",
        *head,
        "    \\endhead",
        f"    \\midrule \\multicolumn{{{last}}}{{r}}{{continued}}\\\\",
        "    \\endfoot",
        "    \\bottomrule",
        "    \\endlastfoot",
    ]
    begins = starts(table)
    for place, (line, start) in enumerate(zip(table.lines, begins, strict=True)):
        if place and start is Start.SIZE:
            text.append("    \\midrule")
        elif start in (Start.GROUP, Start.BEYOND):
            text.append(f"    \\cmidrule{{2-{last}}}")
        ends_here = place + 1 == len(begins) or begins[place + 1] is not Start.NOTHING
        text += _rows(cells(table, line), line, start, first, "\\\\" if ends_here else "\\\\*")
    notes = (*table.notes, *table.conditions)
    return "\n".join([*text, "\\end{longtable}", *latex_notes(notes), "\\endgroup"]) + "\n"


def latex_notes(notes: Sequence[str]) -> list[str]:
    """Return ``notes`` as lines of LaTeX, a paragraph each."""
    return [
        "\\par\\begingroup\\scriptsize\\raggedright\\setlength{\\parindent}{0pt}",
        *(f"{latex_escape(note)}\\par" for note in notes),
        "\\endgroup",
    ]


def _rows(row: Sequence[Cell], line: Line, start: Start, first: int, end: str) -> list[str]:
    """Return our figures and, where there are any, the paper's; ``end`` allows a page to end there or not."""
    ours = [_figure(cell.text) for cell in row]
    ours[0] = ours[0] if start is Start.SIZE else ""
    ours[1], ours[-1] = (latex_escape(cell.text).replace("s = ", "s~=~") for cell in (row[1], row[-1]))
    if row[first + 1].text == BASELINE:
        ours[first + 1 : first + 3] = [f"\\multicolumn{{2}}{{c}}{{\\itshape {BASELINE}}}"]
    if line.published is None:
        return [f"    {' & '.join(ours)} {end}"]
    theirs = ["", "\\quad\\itshape the paper", *(_figure(cell.paper) for cell in row[2:])]
    return [f"    {' & '.join(ours)} \\\\*", f"    {' & '.join(theirs)} {end}"]


def _figure(text: str) -> str:
    """Return numbers with minus signs in place of hyphens."""
    return _MINUS.sub("$-$", latex_escape(text))


def latex_escape(text: str) -> str:
    """Return ``text`` with every character that LaTeX would act on, or stop at, made harmless."""
    return "".join(_SIGNS.get(c, c if c <= _LAST_LETTER and c.isprintable() else "?") for c in text)
