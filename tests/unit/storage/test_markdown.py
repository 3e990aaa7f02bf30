"""Markdown tables and templates: cells stay cells, text stays text."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from mcvrp.storage.markdown import render, table


def test_columns_are_aligned_as_asked() -> None:
    """A letter a column, or all but the first to the right; a bar within a cell is escaped."""
    assert table(["a", "b"], [["1", "x|y"]], "rl").splitlines() == [
        "| a | b |",
        "| --: | --- |",
        r"| 1 | x\|y |",
    ]
    assert table(["a", "b", "c"], [], right=True).splitlines()[1] == "| --- | --: | --: |"


def test_a_value_that_nobody_gives_is_an_error() -> None:
    """A document never has a hole in it."""
    with pytest.raises(UndefinedError, match="rows"):
        render("mcvrp.tasks.report", "significance.html.j2", caption="none")


def test_html_is_escaped() -> None:
    """Values given to a template for HTML are text."""
    assert "<li>a &lt;b&gt;</li>" in render("mcvrp.tasks.report", "notes.html.j2", notes=["a <b>"])
