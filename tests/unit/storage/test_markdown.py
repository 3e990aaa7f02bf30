"""Markdown tables and templates."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from mcvrp.storage.markdown import render, table


def test_columns_are_aligned_and_bars_escaped() -> None:
    assert table(["a", "b"], [["1", "x|y"]], "rl").splitlines() == [
        "| a | b |",
        "| --: | --- |",
        r"| 1 | x\|y |",
    ]
    assert table(["a", "b", "c"], [], right=True).splitlines()[1] == "| --- | --: | --: |"


def test_an_undefined_value_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="rows"):
        render("mcvrp.tasks.report", "significance.html.j2", caption="none")


def test_html_is_escaped() -> None:
    assert "<li>a &lt;b&gt;</li>" in render("mcvrp.tasks.report", "notes.html.j2", notes=["a <b>"])
