"""A report as one HTML page that needs nothing else: no network, pictures and one small script inside.

Knows headings, figures and escaping; what they say comes from `tasks.report`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from tasks.report_script import SCRIPT
from tasks.significance import PairedTest
from tasks.significance_formats import to_html as tests_html
from tasks.table_formats import to_html
from tasks.tables import Table

_STYLE = """
:root { color-scheme: light; --ink: #1c2530; --soft: #5b6774; --line: #dfe4ea; --blue: #0072B2; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1220px; padding: 1.5rem 1.25rem 4rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .2rem 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .8rem; padding-bottom: .3rem; border-bottom: 2px solid var(--line); }
.lead { color: var(--soft); margin: 0 0 1.4rem; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(215px, 1fr)); gap: .8rem; }
.card { border: 1px solid var(--line); border-left: 4px solid var(--blue); border-radius: 6px;
  padding: .7rem .9rem; }
.card b { display: block; font-size: 1.7rem; line-height: 1.25; }
.card span { display: block; }
.card small { color: var(--soft); display: block; line-height: 1.35; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .93rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .5rem; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 2rem); }
.hint { color: var(--soft); font-size: .86rem; margin: -.4rem 0 1rem; }
th, td { padding: .32rem .6rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
table.sortable tr > *:nth-child(2), table.sortable tr > *:last-child { text-align: left; }
th button { all: unset; cursor: pointer; white-space: nowrap; }
th button:hover, th button:focus-visible { text-decoration: underline; }
th[aria-sort=ascending] button::after { content: " ▲"; font-size: .7em; }
th[aria-sort=descending] button::after { content: " ▼"; font-size: .7em; }
table:not(.sorted) tr.size td { border-top: 1px solid #9aa5b1; }
table:not(.sorted) tr.group td:nth-child(n + 2) { border-top: 1px solid var(--line); }
table.sortable:not(.sorted) tbody tr:not(.size) td:first-child { color: transparent; }
td small { display: block; color: var(--soft); font-size: .78rem; line-height: 1.2; }
table.tests { width: auto; }
table.tests th { white-space: normal; max-width: 22rem; }
table.tests tr > * { text-align: right; }
table.tests tr > *:first-child { text-align: left; }
.scroll + .notes { margin-bottom: 2.4rem; }
table.plain td { text-align: left; white-space: normal; border-bottom: 1px solid var(--line); }
table.plain td:first-child { font-weight: 600; white-space: nowrap; vertical-align: top; }
ul.notes { color: var(--soft); font-size: .86rem; padding-left: 1.1rem; overflow-wrap: anywhere; }
figure { margin: 0 0 2rem; }
figure img { width: 100%; min-width: 620px; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .4rem; }
pre { background: #f5f7f9; border: 1px solid var(--line); border-radius: 6px; padding: .9rem;
  overflow-x: auto; font-size: .84rem; }
summary { cursor: pointer; }
a { color: var(--blue); }
ul.files { columns: 2; column-gap: 2rem; padding-left: 1.1rem; overflow-wrap: anywhere; }
@media (max-width: 640px) { body { padding: 1rem .8rem 3rem; } ul.files { columns: 1; }
  h1 { font-size: 1.4rem; } .card b { font-size: 1.4rem; }
  .cards { grid-template-columns: 1fr 1fr; } .card { padding: .5rem .6rem; }
  table.sortable tr > *:nth-child(2) { position: sticky; left: 0; background: #fff; white-space: normal;
    min-width: 8.5rem; box-shadow: 1px 0 var(--line); } }
"""


_SORTABLE = '<p class="hint">A click on a heading sorts its table.</p>'
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
    """Everything that the report says, in order."""

    title: str
    lead: str
    key_figures: Sequence[KeyFigure]
    stages: Sequence[StageLine]
    tables: Sequence[Table]
    tests: Sequence[PairedTest]
    figures: Sequence[Figure]
    configuration: str
    links: Sequence[Link]


def render(page: Page) -> str:
    """Return ``page`` as one HTML document; sections without content are left out."""
    sections = [
        ("", f'<div class="cards">{_join(map(_card, page.key_figures))}</div>' if page.key_figures else ""),
        ("What was run", _stages(page.stages)),
        ("Comparison", _SORTABLE + _join(map(to_html, page.tables)) if page.tables else ""),
        ("Significance", tests_html(page.tests) if page.tests else ""),
        ("Pictures", _join(map(_figure, page.figures))),
        ("Configuration", _configuration(page.configuration)),
        ("Files", _links(page.links)),
    ]
    body = _join((f"<h2>{escape(head)}</h2>" if head else "") + part for head, part in sections if part)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(page.title)}</title><style>{_STYLE}</style></head><body>\n"
        f'<h1>{escape(page.title)}</h1><p class="lead">{escape(page.lead)}</p>\n{body}\n'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


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


def _links(links: Sequence[Link]) -> str:
    items = _join(f'<li><a href="{escape(link.href)}">{escape(link.text)}</a></li>' for link in links)
    return f'<ul class="files">{items}</ul>' if items else ""


def _join(parts: Iterable[str]) -> str:
    return "\n".join(parts)
