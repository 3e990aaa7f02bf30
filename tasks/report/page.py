"""Report of a benchmark as one HTML page that needs nothing else: pictures, style and script are inside.

Knows what the page is made of; what it says comes from `tasks.report.write`, how it looks and behaves from
the templates beside it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from mcvrp.storage import markdown
from mcvrp.tasks.report.formats import significance_html, to_html
from mcvrp.tasks.report.significance import PairedTest
from mcvrp.tasks.report.tables import Table


@dataclass(frozen=True)
class ReportFigure:
    """A picture (PNG bytes, and SVG for a file beside the page) with what it shows, in a sentence or two."""

    name: str
    png: bytes
    caption: str
    svg: bytes = b""

    @property
    def source(self) -> str:
        """Picture itself as an address, so that the page loads nothing."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class KeyFigure:
    """A number of the run that matters, ready to print, and what it is."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class StageLine:
    """One stage of the run: its name and what it did."""

    name: str
    what: str


@dataclass(frozen=True)
class Link:
    """A file of the run, by an address relative to the page."""

    href: str
    text: str


@dataclass(frozen=True)
class Page:
    """Everything that the report says, in order; ``address`` is the folder that the links begin at."""

    title: str
    lead: str
    key_figures: Sequence[KeyFigure]
    stages: Sequence[StageLine]
    tables: Sequence[Table]
    tests: Sequence[PairedTest]
    figures: Sequence[ReportFigure]
    configuration: str
    links: Sequence[Link]
    address: str = ""


def render(page: Page) -> str:
    """Return ``page`` as one HTML document; sections without content are left out."""
    tables, tests = [to_html(table) for table in page.tables], significance_html(page.tests)
    return markdown.render("mcvrp.tasks.report", "report.html.j2", page=page, tables=tables, tests=tests)
