"""Tests of significance: figures of SciPy, methods of the paper, reasons for missing figures, and formats."""

from __future__ import annotations

import io
import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from mcvrp.tasks.report.formats import to_csv
from mcvrp.tasks.report.paper import significance
from mcvrp.tasks.report.tables import Table
from mcvrp.tasks.support.t_test import paired_t_test
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


def table_of(counts: dict[tuple[str, int], int]) -> Table:
    table = significance(results(counts), 400)
    assert table is not None
    return table


def test_the_two_tests_are_the_papers() -> None:
    """The samples against a single run, as many runs against the samples; figures with every digit in CSV."""
    frame = pd.read_csv(io.StringIO(to_csv(table_of(ALL))))
    runs = frame[["x", "x_samples", "y", "y_samples"]].to_numpy().tolist()
    assert runs == [["FM-MCVRP (NS)", 1000, "HGS", 1], ["HGS", 1000, "FM-MCVRP (NS)", 1000]]
    costs = {key: part["cost"].to_numpy() for key, part in results(ALL).groupby(["method", "samples"])}
    expected = paired_t_test(costs["FM-MCVRP (NS)", 1000], costs["HGS", 1])
    assert {name: frame.loc[0, name] for name in asdict(expected)} == asdict(expected)
    assert expected.p < 1e-6
    assert significance(rows_of("HGS", 20, [1.0]), 400) is None


def test_rows_are_those_of_the_papers_tables() -> None:
    table = {name: values for name, *values in table_of(ALL).cells.to_numpy().tolist()}
    assert table["Customers"] == ["400", "400"]
    assert table["degrees of freedom"] == ["19", "19"]
    assert all("e-" in p or float(p) > 0.1 for p in table["p"])  # never "0.00"
    assert table["mean of X"][0] == table["mean of Y"][1]


def test_a_test_without_pairs_has_no_column() -> None:
    missing = table_of({key: count for key, count in ALL.items() if key != ("HGS", 1000)})
    assert missing.cells.columns.tolist() == ["", "X: FM-MCVRP (NS, s = 1000); Y: HGS (s = 1)"]
    assert len(missing.numbers) == 1
    assert significance(results({("HGS", 1): 1, ("FM-MCVRP (NS)", 1000): 20}), 400) is None
