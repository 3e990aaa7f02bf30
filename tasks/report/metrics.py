"""Metrics of a benchmark: gap, wins, percentiles, and the costs of two methods paired by instance.

Results are a frame with one row per instance, method and number of samples, as `BenchmarkResults.frame` has
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.problem import COST_TOLERANCE, gap

LOW, HIGH = 10, 90  # the 80 % inter-percentile range of the paper's tables
MethodRun = tuple[str, int]  # a method's label and its number of samples


@dataclass(frozen=True)
class Percentiles:
    """Mean, 10th and 90th percentile of some values."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Percentiles:
        """Return the figures of ``values`` ``(k,)``, k > 0; percentiles interpolate linearly."""
        low, high = np.percentile(values, [LOW, HIGH])
        return cls(float(np.mean(values)), float(low), float(high))


def wins(cost: NDArray[np.float64], base: NDArray[np.float64]) -> int:
    """Return the number of instances with a lower cost than the baseline, by more than 1e-9 of it."""
    return int((cost < base * (1 - COST_TOLERANCE)).sum())


def paired(
    results: pd.DataFrame, n: int | None, one: MethodRun, other: MethodRun
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two methods' costs on the instances of size ``n`` (None: all) that both solved, ``(k,)``."""
    rows = results if n is None else results[results["n"] == n]
    return matched(
        *(rows[(rows["method"] == method) & (rows["samples"] == samples)] for method, samples in (one, other))
    )


def matched(one: pd.DataFrame, other: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs of two blocks of results on the instances that both solved, sorted by n and index."""
    ours, theirs = (rows.dropna(subset="cost")[["n", "index", "cost"]] for rows in (one, other))
    # sorted, because the order of summation determines the last digits of a mean
    both = ours.merge(theirs, on=["n", "index"], suffixes=("", "_other")).sort_values(["n", "index"])
    return both["cost"].to_numpy(np.float64), both["cost_other"].to_numpy(np.float64)


def baseline_of(results: pd.DataFrame) -> MethodRun:
    """Return the baseline: a single run of HGS, or of PyVRP if HGS has no answers (asymmetric costs)."""
    solved = set(results.loc[results["cost"].notna() & (results["samples"] == 1), "method"])
    return ("PyVRP" if "HGS" not in solved and "PyVRP" in solved else "HGS"), 1


def mean_gap(results: pd.DataFrame, method: MethodRun) -> float | None:
    """Return the mean gap of ``method`` to the baseline over all sizes in percent, None without a pair."""
    cost, base = paired(results, None, method, baseline_of(results))
    return float(gap(cost, base).mean()) if len(cost) else None
