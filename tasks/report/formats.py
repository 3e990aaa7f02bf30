"""Tables of a benchmark as CSV, Markdown and LaTeX, and the page of its report."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mcvrp.storage import markdown
from mcvrp.storage.markdown import render
from mcvrp.tasks.report.tables import Table
from mcvrp.tasks.report.verdict import CODES, PICTURE

_TEXTS = "", "Method"  # headings of the columns of text, to the left
# Prefect's pages cut off wider tables, and terminals wrap them.
_NARROW = ["N", "Method", "Gap avg. (%)", "Obj. avg.", "Time"]


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
    headings = list(map(str, table.cells))
    align = "".join("l" if heading in _TEXTS else "r" for heading in headings)
    grid = markdown.table(headings, table.cells.to_numpy().tolist(), align)
    notes = "\n".join(f"- {markdown.escaped(note)}" for note in (*table.notes, *table.conditions))
    return f"**{table.caption}**\n\n{grid}\n\n{notes}\n"


def to_narrow_markdown(table: Table) -> str:
    """Return the table of all methods as one of five columns, without the conditions."""
    return to_markdown(replace(table, cells=table.cells[_NARROW], conditions=()))


def to_latex(table: Table) -> str:
    """Return the table as LaTeX, an environment ``longtable`` with rules of ``booktabs``."""
    columns = "".join("l" if heading in _TEXTS else "r" for heading in table.cells)
    styled = table.cells.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
    return styled.to_latex(environment="longtable", column_format=columns, caption=table.caption, hrules=True)


def render_page(page: Page) -> str:
    """Return ``page`` as one self-contained HTML document; empty sections are left out."""
    beside = [figure for figure in page.figures if page.verdict and figure.name == PICTURE]
    figures = [figure for figure in page.figures if figure not in beside]
    parts = {"codes": CODES, "beside": beside, "figures": figures}
    return render("mcvrp.tasks.report", "report.html.j2", page=page, **parts)


FORMATS: dict[str, Callable[[Table], str]] = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
