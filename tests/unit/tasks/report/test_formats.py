"""Formats of the tests of significance: the paper's rows, in four formats, also without figures."""

from __future__ import annotations

import io
from collections.abc import Callable

import pandas as pd
import pytest

from mcvrp.tasks.report.cells import significance_rows
from mcvrp.tasks.report.formats import (
    significance_csv,
    significance_html,
    significance_latex,
    significance_markdown,
)
from mcvrp.tasks.report.paper import PairedTest
from mcvrp.tasks.support.t_test import Statistics

STATISTICS = Statistics(34.712, 35.081, 1.37, 1.371, -53.43, 1e-290, 999, -0.39, -0.0123)
PAPER = {"x_mean": 34.71, "y_mean": 35.08, "x_std": 1.37, "y_std": 1.37, "t": -53.43, "p": 0.0}
PAPER |= {"degrees": 999, "ci_low": -0.39, "ci_high": -0.36}
NS, HGS = ("FM-MCVRP (NS)", 1000), ("HGS", 1)
TESTS = (
    PairedTest(NS, HGS, 400, STATISTICS, paper=PAPER),
    PairedTest(("<HGS>", 1000), NS, 400, None, "no results of 50% & more"),
)


def test_rows_are_those_of_the_papers_tables() -> None:
    table = {name: values for name, *values in significance_rows(TESTS)}
    assert table["H1"] == ["X < Y", "X < Y"]
    assert table["mean of X"] == ["34.71 (34.71)", "–"]
    assert table["t"][0] == "-53.43 (-53.43)"
    assert table["p"][0] == "1.0e-290 (0.00)"
    assert table["degrees of freedom"][0] == "999 (999)"
    assert table["95 % CI of the mean of X − Y"] == ["-0.39 to -0.012 (-0.39 to -0.36)", "–"]

    none = Statistics(1.0, 2.0, 0.0, 0.0, float("-inf"), 0.0, 9, -1.0, -1.0)
    table = {name: values for name, *values in significance_rows([PairedTest(NS, HGS, 20, none)])}
    assert table["p"] == ["< 1e-300"]  # never "0"


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (significance_markdown, "no results of 50% & more"),
        (significance_latex, "no results of 50\\% \\& more"),
        (significance_html, "no results of 50% &amp; more"),
        (significance_csv, "no results of 50% & more"),
    ],
)
def test_every_format_has_the_reason_for_missing_figures(write: Callable[..., str], reason: str) -> None:
    assert reason in write(TESTS)


def test_csv_has_every_digit() -> None:
    frame = pd.read_csv(io.StringIO(significance_csv(TESTS)))
    assert frame.loc[0, "x_mean"] == 34.712
    assert frame.loc[0, "paper_x_mean"] == 34.71
    assert frame.loc[1, ["x_mean", "paper_t"]].isna().all()
