"""Paired, one-sided t-test with the two-sided interval of the mean difference (Sec. 6.2, Appendix D)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Statistics:
    """A one-sided paired t-test of H0: X >= Y against H1: X < Y.

    ``x_mean``, ``y_mean``, ``x_std``, ``y_std`` (of n - 1), ``t``, ``p``, ``degrees`` of freedom,
    and the two-sided 95 % confidence interval of the mean difference X - Y.
    """

    x_mean: float
    y_mean: float
    x_std: float
    y_std: float
    t: float
    p: float
    degrees: int
    ci_low: float
    ci_high: float


def paired_t_test(x: NDArray[np.float64], y: NDArray[np.float64]) -> Statistics:
    """Return the test of H1: mean(x) < mean(y) on pairs ``(k,)``, k >= 2.

    Where all differences are equal there is no spread to compare with: t is infinite, or 0 for
    no difference at all.
    """
    # by hand: scipy.stats.ttest_rel differs in the last digit, which decisions and stored figures keep, and
    # gives no number where all differences are 0
    difference = x - y
    k, mean = len(difference), float(difference.mean())
    error = float(difference.std(ddof=1)) / k**0.5
    # where all differences are equal, scipy's ttest_rel divides by 0
    without_spread = float(np.sign(mean)) * np.inf if mean else 0.0
    t = mean / error if error > 0 else without_spread
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, k - 1)) * error
    return Statistics(
        x_mean=float(x.mean()),
        y_mean=float(y.mean()),
        x_std=float(x.std(ddof=1)),
        y_std=float(y.std(ddof=1)),
        t=t,
        p=float(stats.t.cdf(t, k - 1)),
        degrees=k - 1,
        ci_low=mean - half,
        ci_high=mean + half,
    )
