"""A report as one HTML page that needs nothing else: no network, pictures and one small script inside.

Knows headings, figures and escaping; what they say comes from `tasks.report.write`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from mcvrp.tasks.report.formats import to_html
from mcvrp.tasks.report.significance import PairedTest
from mcvrp.tasks.report.significance_formats import to_html as tests_html
from mcvrp.tasks.report.tables import Table

_SORTABLE = '<p class="hint">A click on a heading sorts its table within each size.</p>'
# The page may use what it carries and nothing else.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True)
class ReportFigure:
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
    figures: Sequence[ReportFigure]
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


def _figure(figure: ReportFigure) -> str:
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


# The report's one script

SCRIPT = """
const OPEN_AT_FIRST = 45;  // rows: a longer table shows its first size only

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(...text);
  made.onclick = act;
  return made;
}

function fold(group, closed) {
  group.classList.toggle("closed", closed);
  group.rows[0].querySelector("button").setAttribute("aria-expanded", String(!closed));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const groups = [...table.tBodies].map(body => {
    const [heading, ...rows] = body.rows;
    return {body, heading, rows};
  });
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.value;
  const sort = (head, column) => {
    const order = {ascending: "descending", descending: ""}[head.getAttribute("aria-sort")] ?? "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    if (order) head.setAttribute("aria-sort", order);
    table.classList.toggle("sorted", order !== "");
    const sign = order === "descending" ? -1 : 1;
    const compare = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      const difference = Number(x) - Number(y);
      return sign * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
    };
    for (const {body, rows} of groups) body.append(...(order ? [...rows].sort(compare) : rows));
  };
  heads.forEach((head, column) => head.replaceChildren(button(head.childNodes, () => sort(head, column))));

  if (groups.length < 2) continue;
  const bodies = groups.map(group => group.body);
  for (const {body, heading} of groups) {
    const text = heading.querySelector("span");
    text.replaceChildren(button(text.childNodes, () => fold(body, !body.classList.contains("closed"))));
  }
  const long = groups.reduce((sum, group) => sum + group.rows.length, 0) > OPEN_AT_FIRST;
  bodies.forEach((body, place) => fold(body, long && place > 0));
  const all = button(["Open or close all sizes"], () => {
    const closing = !bodies.some(body => body.classList.contains("closed"));
    for (const body of bodies) fold(body, closing);
  });
  all.className = "all";
  table.parentElement.before(all);
}
"""


# How the report looks

STYLE = """
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
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1.2rem 0 1.2rem; font-size: .93rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .93rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .5rem; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 3rem); }
.hint { color: var(--soft); font-size: .86rem; margin: -.4rem 0 1rem; }
th, td { padding: .32rem .6rem; text-align: right; white-space: nowrap; vertical-align: top; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
tbody th { font-weight: 400; }
th:first-child { text-align: left; }
.sortable tr > :last-child { text-align: left; white-space: normal; min-width: 9rem; }
.sortable tbody th[scope=row] { white-space: normal; min-width: 11rem; }
th button, button.all { all: unset; cursor: pointer; }
button:hover { text-decoration: underline; }
button:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; border-radius: 2px; }
button.all { color: var(--blue); font-size: .86rem; margin-bottom: .2rem; }
th[aria-sort=ascending] button::after { content: " ▲"; font-size: .7em; }
th[aria-sort=descending] button::after { content: " ▼"; font-size: .7em; }
tr.size th { background: #f0f3f6; font-weight: 600; padding: .4rem .6rem; border-top: 1px solid #9aa5b1; }
tr.size span { position: sticky; left: .6rem; }
tr.size small { color: var(--soft); font-weight: 400; margin-left: .4rem; }
tr.size button::before { content: "▾"; display: inline-block; width: 1.1em; }
.closed tr.size button::before { content: "▸"; }
.closed tr:not(.size) { display: none; }
table:not(.sorted) tr.group > * { border-top: 1px solid var(--line); }
table:not(.sorted) tr.beyond > * { border-top: 2px solid #9aa5b1; }
td small { display: block; color: var(--soft); font-size: .78rem; line-height: 1.2; }
table.tests { width: auto; }
table.tests thead th { white-space: normal; max-width: 22rem; }
details.conditions { color: var(--soft); font-size: .86rem; margin: -.4rem 0 2.4rem; }
.scroll + .notes:has(+ :not(details)), .scroll + .notes:last-child { margin-bottom: 2.4rem; }
table.plain td { text-align: left; white-space: normal; border-bottom: 1px solid var(--line); }
table.plain td:first-child { font-weight: 600; white-space: nowrap; vertical-align: top; }
ul.notes { color: var(--soft); font-size: .86rem; padding-left: 1.1rem; overflow-wrap: anywhere; }
figure { margin: 0 0 2rem; }
figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .4rem; }
pre { background: #f5f7f9; border: 1px solid var(--line); border-radius: 6px; padding: .9rem;
  overflow-x: auto; font-size: .84rem; }
summary { cursor: pointer; }
a { color: var(--blue); }
ul.files { columns: 2; column-gap: 2rem; padding-left: 1.1rem; overflow-wrap: anywhere; }
@media (max-width: 640px) { body { padding: 1rem .8rem 3rem; } ul.files { columns: 1; }
  h1 { font-size: 1.4rem; } .card b { font-size: 1.4rem; }
  .cards { grid-template-columns: 1fr 1fr; } .card { padding: .5rem .6rem; }
  th, td { padding: .32rem .45rem; } figure img { min-width: 560px; }
  .sortable thead th:first-child, .sortable tbody th[scope=row] { position: sticky; left: 0;
    background: #fff; min-width: 8.2rem; max-width: 8.2rem; box-shadow: 1px 0 var(--line); }
  .sortable thead th:first-child { box-shadow: 1px 0 var(--line), inset 0 -2px var(--ink); }
  .sortable tr > :last-child { min-width: 13rem; } }
@media print { @page { size: A4 landscape; margin: 1.2cm; }
  body { max-width: none; padding: 0; font-size: 11px; } .scroll { overflow: visible; }
  .closed tr:not(.size) { display: table-row; } tr, figure { break-inside: avoid; }
  thead { display: table-header-group; break-inside: avoid; } table { font-size: 10px; }
  button.all, .hint, nav { display: none; }
  th button::after, tr.size button::before { content: none !important; }
  details.conditions::details-content { content-visibility: visible; } }
"""
