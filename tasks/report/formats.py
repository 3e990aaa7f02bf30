"""Tables of a benchmark as CSV, Markdown and LaTeX, and the page of its report."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from mcvrp.storage import markdown
from mcvrp.storage.markdown import render
from mcvrp.tasks.report.tables import Table
from mcvrp.tasks.report.verdict import CODES, PICTURE

# Prefect's pages cut off wider tables, and terminals wrap them.
_NARROW = (
    ("N", "Method", "Gap avg. (%)", "Gap 80 % (%)", "Time"),
    ("N", "Method", "Wins (%)", "Obj. avg.", "Obj. 80 %"),
)
_WIDTHS = {"": "4.5cm", "Method": "6cm"}  # of columns of text, in LaTeX
_LONG = 20  # characters of a heading that has to wrap
_LAST_LETTER = "\u017f"  # last letter that pdfLaTeX supports without further packages
_TYPOGRAPHY = {"–": "--", "—": "---", "…": "...", "−": "-", "×": "x", "≥": ">=", "≤": "<=", "\xa0": " "}


@dataclass(frozen=True)
class ReportFigure:
    """Figure as PNG with a caption."""

    name: str
    png: bytes
    caption: str

    @property
    def source(self) -> str:
        """Figure as a data URL, so that the page loads nothing."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class Page:
    """Content of the report in order."""

    title: str
    lead: str
    verdict: Sequence[str] = ()  # what the model is worth, beside the figure `PICTURE`
    warnings: Sequence[str] = ()
    key_figures: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    figures: Sequence[ReportFigure] = ()


def to_csv(table: Table) -> str:
    """Return the numbers at full precision as CSV; missing ones are empty."""
    return table.numbers.to_csv(index=False, lineterminator="\n")


def to_markdown(table: Table) -> str:
    """Return the table as GitHub Markdown, with the notes as a list."""
    return _markdown(table, table.cells)


def to_narrow_markdown(table: Table) -> str:
    """Return the table of all methods as two of at most five columns: gaps and times, wins and costs."""
    return _markdown(table, *(table.cells[list(names)] for names in _NARROW))


def _markdown(table: Table, *parts: pd.DataFrame) -> str:
    grids = [
        markdown.table(list(map(str, part)), part.to_numpy().tolist(), "".join(map(_side, map(str, part))))
        for part in parts
    ]
    notes = "\n".join(f"- {markdown.escaped(note)}" for note in (*table.notes, *table.conditions))
    return "\n\n".join([f"**{table.caption}**", *grids, notes]) + "\n"


def _side(heading: str) -> str:
    return "l" if heading in _WIDTHS else "r"


def to_latex(table: Table) -> str:
    """Return the table, and one of its notes, as LaTeX of the environment ``longtable``."""
    notes = pd.DataFrame({"Notes": [*table.notes, *table.conditions]})
    parts = [
        "% needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,longtable,array}",
        r"\begingroup\scriptsize\setlength{\tabcolsep}{3pt}",
        _longtable(table.cells, "".join(map(_column, map(str, table.cells))), table.caption),
        _longtable(notes, r"p{0.95\linewidth}"),
        r"\endgroup",
    ]
    return "\n".join(parts) + "\n"


def _column(heading: str) -> str:
    width = _WIDTHS.get(heading, "5.2cm" if len(heading) > _LONG else "")
    side = "raggedright" if heading in _WIDTHS else "raggedleft"
    return rf">{{\{side}\arraybackslash}}p{{{width}}}" if width else "r"


def _longtable(cells: pd.DataFrame, columns: str, caption: str | None = None) -> str:
    styled = cells.map(_plain).style.hide(axis="index").format(escape="latex")
    styled = styled.format_index(escape="latex", axis=1)
    return styled.to_latex(environment="longtable", column_format=columns, caption=caption, hrules=True)


def _plain(text: object) -> str:
    """Return ``text`` in characters that pdfLaTeX can set; others become question marks."""
    known = "".join(_TYPOGRAPHY.get(character, character) for character in str(text))
    return "".join(c if c <= _LAST_LETTER and c.isprintable() else "?" for c in known)


def render_page(page: Page) -> str:
    """Return ``page`` as one self-contained HTML document; empty sections are left out."""
    beside = [figure for figure in page.figures if page.verdict and figure.name == PICTURE]
    figures = [figure for figure in page.figures if figure not in beside]
    parts = {"codes": CODES, "beside": beside, "figures": figures}
    return render("mcvrp.tasks.report", "report.html.j2", page=page, **parts)


FORMATS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
