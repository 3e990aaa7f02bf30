"""Student's distribution against SciPy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.student import cumulative, quantile

degrees = st.one_of(st.integers(1, 40), st.sampled_from([99, 999, 10_000]))


@given(st.floats(-60, 60), degrees)
def test_the_cumulative_probability_is_scipys(t: float, df: int) -> None:
    """To ten digits, also far out in the lower tail, where a test's p-value lies."""
    assert cumulative(t, df) == pytest.approx(stats.t.cdf(t, df), rel=1e-10, abs=1e-300)


@given(st.floats(0.001, 0.999), degrees)
def test_a_quantile_is_scipys(probability: float, df: int) -> None:
    """And the cumulative probability undoes it."""
    found = quantile(probability, df)
    assert found == pytest.approx(stats.t.ppf(probability, df), rel=1e-9, abs=1e-12)
    assert cumulative(found, df) == pytest.approx(probability, rel=1e-9)


def test_the_ends_are_certain() -> None:
    """Nothing lies below minus infinity, everything below infinity, half below zero."""
    assert [cumulative(t, 5) for t in (-math.inf, 0.0, math.inf)] == [0.0, 0.5, 1.0]
