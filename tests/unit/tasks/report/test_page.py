"""The report: one self-contained page without markup from its data."""

from __future__ import annotations

import re
from importlib.resources import files

from mcvrp.tasks.report.formats import Page, ReportFigure, render_page
from mcvrp.tasks.report.metrics import Line, Percentiles
from mcvrp.tasks.report.paper import PairedTest
from mcvrp.tasks.report.tables import Table
from tests.support.markup import Markup

EVIL = '<script>alert("x")</script> & "quotes" \'too\''


def page(text: str) -> Page:
    values = Percentiles(1.0, 0.5, 1.5)
    line = Line(20, text, 1, 3, 0, False, 1, values, values, 0.5, text, None)
    return Page(
        title=text,
        lead=text,
        key_figures=[(text, text, text)],
        stages=[(text, text)],
        tables=[Table(text, (line,), (text,))],
        tests=[PairedTest((text, 1), (text, 2), 20, None, text)],
        figures=[ReportFigure("name", b"\x89PNG", text)],
        configuration=text,
        links=[("table.csv", text)],
    )


def test_text_cannot_become_markup() -> None:
    evil, plain = (Markup(render_page(page(text))) for text in (EVIL, "harmless"))
    assert [tag for tag, _ in evil.elements] == [tag for tag, _ in plain.elements]


def test_the_page_loads_nothing() -> None:
    html = render_page(page("harmless"))
    elements = Markup(html).elements
    sources = [a["src"] or "" for tag, a in elements if tag == "img"]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    links = [a["href"] or "" for tag, a in elements if tag == "a"]
    assert [link for link in links if not link.startswith("#")] == ["table.csv"]
    anchors = {a.get("id") for _, a in elements}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert not re.search(r"https?://|url\(|@import|<link", html)


def test_only_our_script_may_run() -> None:
    html, script = render_page(page(EVIL)), (files("mcvrp.tasks.report") / "templates/report.js").read_text()
    elements = Markup(html).elements
    assert [tag for tag, _ in elements].count("script") == 1
    assert html.count(f"<script>\n{script}</script>") == 1
    policy = next(a["content"] for _, a in elements if a.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")


def test_empty_sections_are_left_out() -> None:
    html = render_page(Page("t", "l", [], [], [], [], [], "", []))
    assert Markup(html).elements
    assert "<h2" not in html
    assert "<nav" not in html


def test_every_heading_cell_has_a_scope() -> None:
    scopes = {a.get("scope") for tag, a in Markup(render_page(page("harmless"))).elements if tag == "th"}
    assert scopes == {"col", "row", "rowgroup"}
