"""Benchmark tables and tests of significance as CSV, Markdown, LaTeX and HTML, and the page of the report.

The paper's figures are in brackets behind ours, in CSV in separate columns, in LaTeX in a separate line.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby, pairwise

import pandas as pd

from mcvrp.storage import markdown
from mcvrp.storage.markdown import render
from mcvrp.tasks.report.cells import (
    BASELINE,
    SIGNIFICANCE,
    cells,
    headings,
    significance_notes,
    significance_rows,
)
from mcvrp.tasks.report.metrics import Line
from mcvrp.tasks.report.paper import PairedTest
from mcvrp.tasks.report.tables import Table, beginnings
from mcvrp.tasks.report.verdict import CODES, PICTURE
from mcvrp.tasks.support.t_test import Statistics

_TEXTS = ("Method", "Run on")  # columns of text
# Prefect's pages cut off wider tables, and terminals wrap them.
_NARROW = (
    ("N", "Method", "Gap avg. (%)", "Gap 80 % (%)", "Time"),
    ("N", "Method", "Wins (%)", "Obj. avg.", "Obj. 80 %"),
)
_PACKAGE = "mcvrp.tasks.report"


@dataclass(frozen=True)
class ReportFigure:
    """Figure as PNG, and as SVG for a separate file, with a caption."""

    name: str
    png: bytes
    caption: str
    svg: bytes = b""

    @property
    def source(self) -> str:
        """Figure as a data URL, so that the page loads nothing."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class Page:
    """Content of the report in order; ``address`` is the folder that the links are relative to."""

    title: str
    lead: str
    key_figures: Sequence[tuple[str, str, str]]  # value, label and explanation, which may be empty
    stages: Sequence[tuple[str, str]]  # name of a stage of the run, and a summary
    tables: Sequence[Table]
    tests: Sequence[PairedTest]
    figures: Sequence[ReportFigure]
    configuration: str
    links: Sequence[tuple[str, str]] = ()  # relative address and name of a file of the run
    address: str = ""
    verdict: Sequence[str] = ()  # what the model is worth, beside the figure `PICTURE`
    warnings: Sequence[str] = ()


def to_csv(table: Table) -> str:
    """Return the numbers at full precision as CSV, one row per line; missing ones are empty."""
    has_paper = any(line.published for line in table.lines)
    rows = [
        {
            "n": line.n,
            "method": line.method,
            "samples": line.samples,
            "instances": line.instances,
            "failed": line.failed,
            **_numbers("", line),
            "run_on": line.run_on,
            "failure": line.failure,
            **(_numbers("paper_", line.published) if has_paper else {}),
        }
        for line in table.lines
    ]
    return pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")


def _numbers(prefix: str, figures: Line | None) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {"wins": figures.wins if figures else None}
    for name, values in (("cost", figures and figures.cost), ("gap", figures and figures.gap)):
        for column, part in (("mean", "mean"), ("p10", "low"), ("p90", "high")):
            numbers[f"{name}_{column}"] = getattr(values, part, None)
    numbers["seconds"] = figures.seconds if figures else None
    return {prefix + name: value for name, value in numbers.items()}


def to_markdown(table: Table) -> str:
    """Return the table as GitHub Markdown, with the notes as a list."""
    columns = _columns(table, headings(table))
    return _markdown(table.caption, columns, (*table.notes, *table.conditions))


def to_narrow_markdown(table: Table) -> str:
    """Return `to_markdown` as two tables of at most five columns: gaps and times, wins and costs.

    The column "Run on" is left out; the notes on the methods name their hardware.
    """
    existing = headings(table)
    columns = "\n\n".join(_columns(table, [name for name in names if name in existing]) for names in _NARROW)
    return _markdown(table.caption, columns, (*table.notes, *table.conditions))


def _columns(table: Table, names: Sequence[str]) -> str:
    rows = [dict(zip(headings(table), map(str, cells(table, line)), strict=True)) for line in table.lines]
    align = "".join("l" if name in _TEXTS else "r" for name in names)
    return markdown.table(names, [[row[name] for name in names] for row in rows], align)


def _markdown(caption: str, table: str, notes: Sequence[str]) -> str:
    return "\n".join(
        [f"**{caption}**", "", table, "", *(f"- {markdown.escaped(note)}" for note in notes), ""]
    )


def to_html(table: Table) -> str:
    """Return the table in a scrolling box with its notes; those on how each method ran are collapsed.

    Cells carry the value to sort by. Everything is visible without JavaScript; the page's script adds the
    buttons.
    """
    rows = [
        (line, start, cells(table, line)[1:])  # the size is the heading of each group
        for line, start in zip(table.lines, beginnings(table), strict=True)
    ]
    sizes = [(n, list(group)) for n, group in groupby(rows, key=lambda row: row[0].n)]
    return render(
        _PACKAGE, "table.html.j2", table=table, headings=headings(table)[1:], sizes=sizes, codes=CODES
    )


def to_latex(table: Table) -> str:
    """Return the table as a LaTeX ``longtable`` (booktabs), with the notes below."""
    columns = len(headings(table))
    first = 4 if table.has_wins else 3  # the column of the objective
    return render(
        _PACKAGE,
        "table.tex.j2",
        caption=latex_escape(table.caption),
        columns=columns,
        first=first,
        wins=table.has_wins,
        rows=list(_latex_rows(table, columns, first)),
        notes=[latex_escape(note) for note in (*table.notes, *table.conditions)],
    )


def _latex_rows(table: Table, columns: int, first: int) -> Iterator[str]:
    """Yield rows with our figures, those with the paper's, and the rules between groups."""
    starts = [*beginnings(table), "size"]
    for k, (line, (start, following)) in enumerate(zip(table.lines, pairwise(starts), strict=True)):
        if k and start == "size":
            yield "\\midrule"
        elif start in ("group", "beyond"):
            yield f"\\cmidrule{{2-{columns}}}"
        row = cells(table, line)
        ours = [_figure(cell.text) for cell in row]
        ours[0] = ours[0] if start == "size" else ""  # once per size
        ours[1], ours[-1] = (latex_escape(cell.text).replace("s = ", "s~=~") for cell in (row[1], row[-1]))
        if row[first + 1].text == BASELINE:
            ours[first + 1 : first + 3] = [f"\\multicolumn{{2}}{{c}}{{\\itshape {BASELINE}}}"]
        if line.published is not None:
            theirs = ["", "\\quad\\itshape the paper", *(_figure(cell.paper) for cell in row[2:])]
            yield f"{' & '.join(ours)} \\\\*"
            ours = theirs
        # the star forbids a page break, except between groups
        yield f"{' & '.join(ours)} \\\\" + "*" * (following == "")


def significance_csv(tests: Sequence[PairedTest]) -> str:
    """Return the figures at full precision as CSV, one row per test."""
    names = [field.name for field in fields(Statistics)]
    records = [
        {
            "n": test.n,
            "x": test.x[0],
            "x_samples": test.x[1],
            "y": test.y[0],
            "y_samples": test.y[1],
            **(asdict(test.statistics) if test.statistics else dict.fromkeys(names)),
            **{f"paper_{name}": value for name, value in (test.paper or {}).items()},
            "reason": test.reason,
        }
        for test in tests
    ]
    return pd.DataFrame(records).to_csv(index=False, lineterminator="\n")


def significance_markdown(tests: Sequence[PairedTest]) -> str:
    """Return the tests as a GitHub Markdown table, with the notes as a list."""
    heading, *rows = significance_rows(tests)
    table = markdown.table(heading, rows, "l" + "r" * len(tests))
    return _markdown(SIGNIFICANCE, table, list(significance_notes(tests)))


def significance_latex(tests: Sequence[PairedTest]) -> str:
    """Return the tests as a LaTeX ``table`` (packages booktabs and array)."""
    return render(
        _PACKAGE,
        "significance.tex.j2",
        caption=SIGNIFICANCE,
        columns="l" + ">{\\raggedleft\\arraybackslash}p{5.2cm}" * len(tests),
        rows=[" & ".join(map(latex_escape, row)) for row in significance_rows(tests)],
        notes=[latex_escape(note) for note in significance_notes(tests)],
    )


def significance_html(tests: Sequence[PairedTest]) -> str:
    """Return the tests as an HTML fragment: a table in a scrolling box and a list of notes."""
    rows, notes = significance_rows(tests), list(significance_notes(tests))
    return render(_PACKAGE, "significance.html.j2", caption=SIGNIFICANCE, rows=rows, notes=notes)


def render_page(page: Page) -> str:
    """Return ``page`` as one self-contained HTML document; empty sections are left out."""
    tables, tests = [to_html(table) for table in page.tables], significance_html(page.tests)
    beside = [figure for figure in page.figures if page.verdict and figure.name == PICTURE]
    figures = [figure for figure in page.figures if figure not in beside]
    parts = {"tables": tables, "tests": tests, "beside": beside, "figures": figures}
    return render(_PACKAGE, "report.html.j2", page=page, **parts)


FORMATS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
SIGNIFICANCE_FORMATS: dict[str, Callable[[Sequence[PairedTest]], str]] = {
    "csv": significance_csv,
    "md": significance_markdown,
    "tex": significance_latex,
}

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
_LAST_LETTER = "\u017f"  # last letter that pdfLaTeX supports without further packages
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def latex_escape(text: str) -> str:
    """Return ``text`` escaped for LaTeX; characters that it cannot set become question marks."""
    return "".join(_SIGNS.get(c, c if c <= _LAST_LETTER and c.isprintable() else "?") for c in text)


def _figure(text: str) -> str:
    return _MINUS.sub("$-$", latex_escape(text))
