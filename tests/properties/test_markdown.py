"""Names from outside in generated Markdown: rendered they are text, no link, no picture, no HTML, no code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mcvrp.flows.cli.output import markdown_text
from mcvrp.flows.server.artifacts import links
from mcvrp.model.errors import printable
from mcvrp.storage.markdown import cell, code, escaped, image, table, unescaped
from mcvrp.storage.store.store import Store

RENDERER = MarkdownIt("commonmark").enable("table")
ACTIVE = {"link_open", "image", "html_inline", "html_block", "em_open", "strong_open", "fence", "code_block"}
# What names may do, put together at random.
PIECES = [
    *("[a](javascript:alert(1))", "](", "![", "<https://e.example>", "`", "``", "\\", "|", "*", "_"),
    *("(", ")", "&lt;", "&#91;", "<!--", "]", "<img src=x onerror=alert(1)>", "\n\n", "\n# a", "[x]: y"),
    *("a.csv", " "),
]
NAMES = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=6).map("".join)
EVIL = "a`[b](javascript:c)|<img src=x onerror=d>![e](f)\\"


def tokens(markdown: str) -> Iterator[Token]:
    for token in RENDERER.parse(markdown):
        yield from (token, *(token.children or ()))


def text_of(parsed: Sequence[Token]) -> str:
    return "".join(token.content for token in parsed if token.type in ("text", "text_special", "code_inline"))


@given(NAMES)
@example(EVIL)
@example(" _a_ __b__ my_city_1 ")
def test_a_name_is_text(name: str) -> None:
    shown = printable(name)
    for before, after in (("# x", "y"), ("- x", "y"), ("**x", "y**"), ("| x", "y |\n| --- |\n")):
        text = cell(escaped(name)) if before.startswith("|") else escaped(name)
        parsed = list(tokens(before + text + after))
        active = {token.type for token in parsed} & ACTIVE
        assert active <= ({"strong_open"} if before.startswith("**") else set())
        assert "code_inline" not in {token.type for token in parsed}
        assert text_of(parsed) == f"x{shown}y"
    assert unescaped(escaped(name)) == shown
    assert markdown_text(table(["x"], [[f"x{escaped(name)}y"]])).splitlines()[-1] == f"x{shown}y"


@given(NAMES)
@example(EVIL)
def test_a_name_as_code_is_one_span(name: str) -> None:
    parsed = list(tokens(f"x {code('a' + name + 'b')} y"))
    assert not {token.type for token in parsed} & ACTIVE
    (span,) = [token.content for token in parsed if token.type == "code_inline"]
    assert span == "a" + printable(name) + "b"


@given(NAMES, NAMES)
def test_a_picture_is_one(name: str, address: str) -> None:
    parsed = list(tokens(f"a {image(name, '/s/' + address)} b"))
    assert [token.type for token in parsed if token.type in ACTIVE] == ["image"]


def test_documents_show_names_as_they_are(store: Store) -> None:
    types = {token.type for token in tokens(links(store, {"orders": "orders/a`b<c>.csv"}))}
    assert not {"image", "link_open", "html_inline", "html_block"} & types


@pytest.mark.parametrize("name", ["https://evil.example", "www.evil.example", "a@evil.example"])
def test_an_address_is_not_one_that_github_links_by_itself(name: str) -> None:
    """The backslash within ends what it looks for."""
    assert name not in escaped(name)


def test_a_comparison_is_no_html() -> None:
    """A README is also read as it is."""
    assert escaped("p < 0.05") == "p < 0.05"
