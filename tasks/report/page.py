"""Report of a benchmark as one self-contained HTML page, with figures, style and script embedded.

Content comes from `tasks.report.write`, layout and behaviour from the templates.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from mcvrp.storage import markdown
from mcvrp.tasks.report.formats import significance_html, to_html
from mcvrp.tasks.report.paper import PairedTest
from mcvrp.tasks.report.tables import Table


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


def render(page: Page) -> str:
    """Return ``page`` as one HTML document; empty sections are left out."""
    tables, tests = [to_html(table) for table in page.tables], significance_html(page.tests)
    return markdown.render("mcvrp.tasks.report", "report.html.j2", page=page, tables=tables, tests=tests)
