"""The report: one page that needs nothing else and carries no markup of its data."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files

from mcvrp.tasks.report.lines import Line
from mcvrp.tasks.report.metrics import Percentiles
from mcvrp.tasks.report.page import KeyFigure, Link, Page, ReportFigure, StageLine, render
from mcvrp.tasks.report.significance import PairedTest
from mcvrp.tasks.report.tables import Table

EVIL = '<script>alert("x")</script> & "quotes" \'too\''
_VOID = {"meta", "img"}


def page(text: str) -> Page:
    values = Percentiles(1.0, 0.5, 1.5)
    line = Line(20, text, 1, 3, 0, False, 1, values, values, 0.5, text, None)
    return Page(
        title=text,
        lead=text,
        key_figures=[KeyFigure(text, text, text)],
        stages=[StageLine(text, text)],
        tables=[Table(text, (line,), (text,))],
        tests=[PairedTest((text, 1), (text, 2), 20, None, text)],
        figures=[ReportFigure("name", b"\x89PNG", text)],
        configuration=text,
        links=[Link("table.csv", text)],
    )


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags


def test_text_cannot_become_markup() -> None:
    """Any names, reasons and settings: the page has the tags of a harmless one."""
    evil, plain = parsed(render(page(EVIL))), parsed(render(page("harmless")))
    assert [tag for tag, _ in evil.seen] == [tag for tag, _ in plain.seen]


def test_the_page_loads_nothing() -> None:
    """Pictures are inside, style is inside, links are relative: it works from a folder and offline."""
    html = render(page("harmless"))
    tags = parsed(html)
    assert all(
        (attributes.get("src") or "data:").startswith("data:image/png;base64,")
        for tag, attributes in tags.seen
        if tag == "img"
    )
    links = [a["href"] or "" for tag, a in tags.seen if tag == "a"]
    assert [link for link in links if not link.startswith("#")] == ["table.csv"]
    anchors = {a.get("id") for _, a in tags.seen}
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert not re.search(r"https?://|url\(|@import|<link", html)


def test_the_one_script_is_ours_and_the_page_may_run_nothing_else() -> None:
    """Sorting is the only code, and the browser is told to fetch nothing from anywhere."""
    html, script = render(page(EVIL)), (files("mcvrp.tasks.report") / "templates/report.js").read_text()
    assert [tag for tag, _ in parsed(html).seen].count("script") == 1
    assert html.count(f"<script>\n{script}</script>") == 1
    policy = next(a["content"] for tag, a in parsed(html).seen if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_sections_without_content_are_left_out() -> None:
    """A benchmark without model has no training section and no empty heading."""
    html = render(Page("t", "l", [], [], [], [], [], "", []))
    assert parsed(html)
    assert "<h2" not in html
    assert "<nav" not in html


def test_every_heading_cell_says_what_it_heads() -> None:
    """For those who hear the page: a column, a row, or the rows of a size."""
    scopes = {a.get("scope") for tag, a in parsed(render(page("harmless"))).seen if tag == "th"}
    assert scopes == {"col", "row", "rowgroup"}
