"""Student's t distribution: its cumulative probability and quantiles, without SciPy."""

from __future__ import annotations

import math

_TINY = 1e-300  # in place of a zero that would be divided by
_CONVERGED = 1e-15
_MOST_TERMS = 10_000


def cumulative(t: float, degrees: int) -> float:
    """Return P(T <= t) of Student's distribution with ``degrees`` of freedom, 1 or more."""
    if math.isinf(t):
        return 0.0 if t < 0 else 1.0
    tail = 0.5 * _incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)
    return tail if t <= 0 else 1 - tail


def quantile(probability: float, degrees: int) -> float:
    """Return the t with P(T <= t) = ``probability``, which lies in (0, 1), by bisection."""
    if probability < 0.5:
        return -quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while cumulative(high, degrees) < probability:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if cumulative(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for x in [0, 1] (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, the other side's does fast
        return 1 - _incomplete_beta(1 - x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logarithm) * _continued_fraction(x, a, b) / a


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            c, d = _not_zero(1 + term / c), 1 / _not_zero(1 + term * d)
            fraction *= c * d
        if abs(c * d - 1) < _CONVERGED:
            break
    return fraction


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
