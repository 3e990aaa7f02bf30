"""A report as one HTML page that needs nothing else: no network, pictures and one small script inside.

Knows headings, figures and escaping; what they say comes from `tasks.report`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from tasks.report_script import SCRIPT
from tasks.report_style import STYLE
from tasks.significance import PairedTest
from tasks.significance_formats import to_html as tests_html
from tasks.table_html import to_html
from tasks.tables import Table

_SORTABLE = '<p class="hint">A click on a heading sorts its table within each size.</p>'
# The page may use what it carries and nothing else.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True)
class Figure:
    """A picture (PNG bytes, and SVG for a file beside the page) with what it shows, in a sentence or two."""

    name: str
    png: bytes
    caption: str
    svg: bytes = b""


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
    figures: Sequence[Figure]
    configuration: str
    links: Sequence[Link]
    address: str = ""


def render(page: Page) -> str:
    """Return ``page`` as one HTML document; sections without content are left out."""
    sections = [
        ("", f'<div class="cards">{_join(map(_card, page.key_figures))}</div>' if page.key_figures else ""),
        ("What was run", _stages(page.stages)),
        ("Comparison", _SORTABLE + _join(map(to_html, page.tables)) if page.tables else ""),
        ("Significance", tests_html(page.tests) if page.tests else ""),
        ("Pictures", _join(map(_figure, page.figures))),
        ("Configuration", _configuration(page.configuration)),
        ("Files", _links(page.links, page.address)),
    ]
    there = [(head, part) for head, part in sections if part]
    body = _join(_heading(head) + part for head, part in there)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head><body>\n"
        f'<h1>{escape(page.title)}</h1><p class="lead">{escape(page.lead)}</p>\n'
        f"{_contents([head for head, _ in there if head])}{body}\n"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _heading(head: str) -> str:
    return f'<h2 id="{_anchor(head)}">{escape(head)}</h2>' if head else ""


def _contents(heads: Sequence[str]) -> str:
    links = _join(f'<a href="#{_anchor(head)}">{escape(head)}</a>' for head in heads)
    return f"<nav>{links}</nav>\n" if len(heads) > 1 else ""


def _anchor(head: str) -> str:
    return head.lower().replace(" ", "-")


def _card(figure: KeyFigure) -> str:
    note = f"<small>{escape(figure.note)}</small>" if figure.note else ""
    return f'<div class="card"><span>{escape(figure.label)}</span><b>{escape(figure.value)}</b>{note}</div>'


def _stages(stages: Sequence[StageLine]) -> str:
    rows = _join(f"<tr><td>{escape(s.name)}</td><td>{escape(s.what)}</td></tr>" for s in stages)
    return f'<div class="scroll"><table class="plain"><tbody>{rows}</tbody></table></div>' if rows else ""


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.png).decode()
    caption = escape(figure.caption)
    return (
        f'<figure id="{escape(figure.name)}"><div class="scroll">'
        f'<img src="data:image/png;base64,{data}" alt="{caption}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _configuration(text: str) -> str:
    if not text:
        return ""
    return f"<details><summary>Every setting of this run</summary><pre>{escape(text)}</pre></details>"


def _links(links: Sequence[Link], address: str) -> str:
    items = _join(f'<li><a href="{escape(link.href)}">{escape(link.text)}</a></li>' for link in links)
    where = f'<p class="hint">Links begin at <code>{escape(address)}</code>.</p>' if address else ""
    return f'{where}<ul class="files">{items}</ul>' if items else ""


def _join(parts: Iterable[str]) -> str:
    return "\n".join(parts)
