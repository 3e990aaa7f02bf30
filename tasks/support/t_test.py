"""Paired, one-sided t-tests: the paper's (Sec. 6.2, Appendix D), and one for skewed differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

CONFIDENCE = 0.95
_ROUNDING = 1e-14  # relative spread up to which differences are equal


@dataclass(frozen=True)
class Statistics:
    """Result of a one-sided paired t-test of H0: X >= Y against H1: X < Y.

    Means, standard deviations (with n - 1), ``t``, ``p``, ``degrees`` of freedom, and the two-sided
    95 % confidence interval of the mean difference X - Y.
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

    If all differences are equal, t is infinite, or 0 if they are 0.
    """
    difference = x - y
    mean, degrees, half = float(difference.mean()), len(difference) - 1, 0.0
    if np.ptp(difference) <= _ROUNDING * abs(mean):  # the error of the mean would be 0
        sign = float(np.sign(mean))
        t, p = sign * np.inf if sign else 0.0, (1 + sign) / 2
    else:  # by special functions: each call of SciPy's tests takes a millisecond
        error = float(difference.std(ddof=1)) / np.sqrt(degrees + 1)
        t = mean / error
        p, half = special.stdtr(degrees, t), float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2) * error)
    x_mean, y_mean, x_std, y_std = map(float, (x.mean(), y.mean(), x.std(ddof=1), y.std(ddof=1)))
    return Statistics(x_mean, y_mean, x_std, y_std, float(t), float(p), degrees, mean - half, mean + half)


def skewed_t_test(change: NDArray[np.float64]) -> float:
    """Return the p-value of H1: mean(change) < 0 on ``(k,)`` values, k >= 3, possibly skewed.

    It is the maximum of Student's t-test and of the same without skewness: T = sqrt(k) (W + g W^2 / 3
    + g^2 W^3 / 27 + g / (6 k)), W = mean / std (Hall 1992, "On the removal of skewness by transformation").
    Student's test alone rejects H0 too often if a rare large loss outweighs many small gains.
    """
    plain = paired_t_test(change, np.zeros(len(change)))
    if plain.t == 0 or np.isinf(plain.t):  # equal values have no skewness
        return plain.p
    k, skewness = len(change), float(stats.skew(change, bias=False))
    w = plain.x_mean / plain.x_std
    t = np.sqrt(k) * (w + skewness * w**2 / 3 + skewness**2 * w**3 / 27 + skewness / (6 * k))
    return max(plain.p, float(special.stdtr(k - 1, t)))
