"""The report as a self-contained page without markup from its data, and as LaTeX that compiles and fits."""

from __future__ import annotations

import re

import pandas as pd

from mcvrp.tasks.report.formats import Page, ReportFigure, render_page
from mcvrp.tasks.report.tables import Table
from mcvrp.tasks.report.verdict import PICTURE
from tests.support.markup import Markup

EVIL = '<script>alert("x")</script> & "quotes" \'too\''


def page(text: str) -> Page:
    cells = pd.DataFrame({"N": ["20", text], "Method": text, text: text})
    table = Table("table", text, cells, cells, [text], [text])
    return Page(
        title=text,
        lead=text,
        verdict=[text],
        warnings=[text],
        key_figures={text: text},
        tables=[table, table],
        figures=[ReportFigure(name, b"\x89PNG", text) for name in ("name", PICTURE)],
    )


def test_text_cannot_become_markup_and_no_script_may_run() -> None:
    evil, plain = (Markup(render_page(page(text))).elements for text in (EVIL, "harmless"))
    assert [tag for tag, _ in evil] == [tag for tag, _ in plain]
    assert "script" not in [tag for tag, _ in plain]
    policy = next(str(a["content"]) for _, a in plain if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert {a.get("scope") for tag, a in plain if tag == "th"} == {"col", "row"}


def test_the_page_loads_nothing() -> None:
    html = render_page(page("harmless"))
    elements = Markup(html).elements
    sources = [a["src"] or "" for tag, a in elements if tag == "img"]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r"https?://|url\(|@import|<link", html)


def test_the_first_screen_has_the_verdict_its_picture_and_the_warnings() -> None:
    """Before anything else; the picture is not repeated below."""
    html = render_page(page("harmless"))
    assert html.index('class="warning"') < html.index('class="verdict"') < html.index(f'id="{PICTURE}"')
    assert html.index(f'id="{PICTURE}"') < html.index("<table")
    assert html.count(f'id="{PICTURE}"') == 1


def test_empty_sections_are_left_out() -> None:
    html = render_page(Page("t", "l"))
    assert Markup(html).elements
    assert "<h2" not in html
