"""Markdown tables and templates."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from mcvrp.storage.markdown import card, render, section, table


def test_columns_are_aligned_and_bars_escaped() -> None:
    assert table(["a", "b"], [["1", "x|y"]], "rl").splitlines() == [
        "| a | b |",
        "| --: | --- |",
        r"| 1 | x\|y |",
    ]
    assert table(["a", "b", "c"], [], right=True).splitlines()[1] == "| --- | --: | --: |"


def test_an_undefined_value_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="page"):
        render("mcvrp.tasks.report", "report.html.j2")


def test_a_card_has_what_is_not_empty_in_order() -> None:
    files = {"a|b.csv": "rows"}
    parts = ("", section("None", ""), section("One", "text\n", ""))
    text = card("Title", {"n": "1|2"}, *parts, lead="lead", files=files, made="made")
    assert text.split("\n\n") == [
        *("# Title", "lead", "|  |  |\n| --- | --- |\n| n | 1\\|2 |", "## One", "text", "made", "## Files"),
        "| File | Holds |\n| --- | --- |\n| `a\\|b.csv` | rows |\n",
    ]
    assert card("Title", {}) == "# Title\n"
    assert card("Title", {}, metadata={"a": 1}).startswith("---\na: 1\n")
