"""Tests of significance: figures of SciPy, methods of the paper, reasons for missing figures, and formats."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from mcvrp.tasks.report.cells import significance_rows
from mcvrp.tasks.report.formats import (
    significance_csv,
    significance_html,
    significance_latex,
    significance_markdown,
)
from mcvrp.tasks.report.paper import PairedTest, paper_tests
from mcvrp.tasks.support.t_test import Statistics, paired_t_test
from tests.support.results import rows_of

pairs = hnp.arrays(
    np.float64, st.tuples(st.integers(3, 50), st.just(2)), elements=st.floats(1, 100, width=32)
)


@given(pairs)
def test_the_figures_are_scipys(values: np.ndarray) -> None:
    x, y = values.T
    if np.std(x - y) < 1e-6:
        return
    got, expected = paired_t_test(x, y), stats.ttest_rel(x, y, alternative="less")
    low, high = stats.ttest_rel(x, y).confidence_interval(0.95)
    assert got.t == pytest.approx(expected.statistic, rel=1e-9, abs=1e-9)
    assert got.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert got.degrees == expected.df
    assert (got.ci_low, got.ci_high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)
    assert (got.x_mean, got.x_std) == pytest.approx((np.mean(x), np.std(x, ddof=1)))
    assert (got.y_mean, got.y_std) == pytest.approx((np.mean(y), np.std(y, ddof=1)))


@pytest.mark.parametrize(("shift", "t", "p"), [(-1.0, -math.inf, 0.0), (0.0, 0.0, 0.5), (1.0, math.inf, 1.0)])
def test_equal_differences_have_a_p_value(shift: float, t: float, p: float) -> None:
    y = np.array([4.0, 8.0, 16.0])
    got = paired_t_test(y + shift, y)
    assert (got.t, got.p, got.ci_low, got.ci_high) == (t, p, shift, shift)


def results(counts: dict[tuple[str, int], int], n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frames = []
    for (method, samples), count in counts.items():
        cost = np.linspace(30, 40, count) + 0.01 * rng.standard_normal(count) - 0.1 * math.log10(samples)
        frames.append(rows_of(method, n, cost.tolist(), samples))
    return pd.concat(frames)


ALL = {("HGS", 1): 20, ("HGS", 1000): 20, ("FM-MCVRP (NS)", 1000): 20}


def test_the_two_tests_are_the_papers() -> None:
    first, second = paper_tests(results(ALL), 400, is_papers_setting=True)
    assert (first.x, first.y) == (("FM-MCVRP (NS)", 1000), ("HGS", 1))
    assert (second.x, second.y) == (("HGS", 1000), ("FM-MCVRP (NS)", 1000))
    assert first.statistics
    assert first.statistics.p < 1e-6
    assert first.paper
    assert second.paper
    assert (first.paper["t"], first.paper["degrees"], second.paper["ci_low"]) == (-53.43, 999, -0.28)
    assert {test.paper for test in paper_tests(results(ALL), 400)} == {None}


def test_a_missing_test_has_a_reason() -> None:
    without = {key: count for key, count in ALL.items() if key != ("HGS", 1000)}
    first, second = paper_tests(results(without), 400)
    assert first.statistics is not None
    assert second.reason == "no results of HGS with s = 1000 yet at N = 400"
    one, _ = paper_tests(results({**ALL, ("HGS", 1): 1}), 400)
    assert one.reason == "fewer than two instances in common at N = 400"


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
