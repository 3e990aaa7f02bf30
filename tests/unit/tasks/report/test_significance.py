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

from mcvrp.tasks.report.formats import Page, render_page, to_csv, to_latex, to_markdown
from mcvrp.tasks.report.paper import PairedTest, paper_tests, test_table as table_of
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
    first, second = paper_tests(results(ALL), 400)
    assert (first.x, first.y) == (("FM-MCVRP (NS)", 1000), ("HGS", 1))
    assert (second.x, second.y) == (("HGS", 1000), ("FM-MCVRP (NS)", 1000))
    assert first.statistics
    assert first.statistics.p < 1e-6


def test_a_missing_test_has_a_reason() -> None:
    without = {key: count for key, count in ALL.items() if key != ("HGS", 1000)}
    first, second = paper_tests(results(without), 400)
    assert first.statistics is not None
    reason = "fewer than two instances of 400 customers that both have solved"
    assert (second.statistics, second.reason) == (None, reason)
    one, _ = paper_tests(results({**ALL, ("HGS", 1): 1}), 400)
    assert (one.statistics, one.reason) == (None, reason)


STATISTICS = Statistics(34.712, 35.081, 1.37, 1.371, -53.43, 1e-290, 999, -0.39, -0.0123)
NS, HGS = ("FM-MCVRP (NS)", 1000), ("HGS", 1)
TESTS = (
    PairedTest(NS, HGS, 400, STATISTICS),
    PairedTest(("<HGS>", 1000), NS, 400, None, "no results of 50% & more"),
)


def test_rows_are_those_of_the_papers_tables() -> None:
    table = {name: values for name, *values in table_of(TESTS).cells.to_numpy().tolist()}
    assert table["mean of X"] == ["34.71", "–"]
    assert table["t"][0] == "-53.43"
    assert table["p"][0] == "1e-290"
    assert table["degrees of freedom"][0] == "999"
    assert table["95 % CI of the mean of X - Y"] == ["-0.39 to -0.012", "–"]


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (to_markdown, "no results of 50% & more"),
        (to_latex, "no results of 50\\% \\& more"),
        (lambda table: render_page(Page("t", "l", tables=[table])), "no results of 50% &amp; more"),
        (to_csv, "no results of 50% & more"),
    ],
)
def test_every_format_has_the_reason_for_missing_figures(write: Callable[..., str], reason: str) -> None:
    assert reason in write(table_of(TESTS))


def test_csv_has_every_digit() -> None:
    frame = pd.read_csv(io.StringIO(to_csv(table_of(TESTS))))
    assert frame.loc[0, "x_mean"] == 34.712
    assert frame.loc[1, ["x_mean", "t"]].isna().all()
