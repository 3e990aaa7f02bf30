"""Metrics of a benchmark: gaps, wins, paired costs, and the figures of a method at a size.

Results are a frame with one row per instance, method and number of samples, as `BenchmarkResults.frame` has
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.problem import COST_TOLERANCE, gap

MethodRun = tuple[str, int]  # a method's label and its number of samples
Blocks = Mapping[tuple[int, str, int], pd.DataFrame]  # results by size, method and number of samples
TIMED = re.compile(r"([\d.e-]+) s\)$")  # ends the labels of rows with a time limit of their own
DIVERGED = "diverged"  # part of the failure of a model whose training did not converge
_LOW, _HIGH = 10, 90  # the 80 % inter-percentile range of the paper's tables
_SPREADS = tuple(f"{of}_{part}" for of in ("cost", "gap") for part in ("mean", "p10", "p90"))
COLUMNS = (  # of the figures of a method at a size (`figures_of`), and of a table as CSV
    *("n", "method", "samples", "baseline", "instances", "failed", "wins", "compared"),
    *_SPREADS,
    *("gap_error", "seconds", "failure"),
)


def run_name(method: MethodRun) -> str:
    """Return the name of a method in tables, in the paper's notation: "HGS (s = 1)", "AM (VS, s = 100)"."""
    label, samples = method
    if label.endswith("(GS)") or (samples == 1 and TIMED.search(label)):
        return label
    return f"{label[:-1]}, s = {samples})" if label.endswith(")") else f"{label} (s = {samples})"


def wins(cost: NDArray[np.float64], base: NDArray[np.float64]) -> int:
    """Return the number of instances with a lower cost than the baseline, by more than 1e-9 of it."""
    return int((cost < base * (1 - COST_TOLERANCE)).sum())


def paired(
    results: pd.DataFrame, n: int | None, one: MethodRun, other: MethodRun
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two methods' costs on the instances of size ``n`` (None: all) that both solved, ``(k,)``."""
    rows = results if n is None else results[results["n"] == n]
    return _matched(
        *(rows[(rows["method"] == method) & (rows["samples"] == samples)] for method, samples in (one, other))
    )


def _matched(one: pd.DataFrame, other: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs of two blocks of results on the instances that both solved, sorted by n and index."""
    ours, theirs = (rows.dropna(subset="cost")[["n", "index", "cost"]] for rows in (one, other))
    # sorted, because the order of summation determines the last digits of a mean
    both = ours.merge(theirs, on=["n", "index"], suffixes=("", "_other")).sort_values(["n", "index"])
    return both["cost"].to_numpy(np.float64), both["cost_other"].to_numpy(np.float64)


def baseline_of(results: pd.DataFrame) -> MethodRun:
    """Return the baseline: a single run of HGS, or of PyVRP if HGS has no answers."""
    solved = set(results.loc[results["cost"].notna() & (results["samples"] == 1), "method"])
    return ("PyVRP" if "HGS" not in solved and "PyVRP" in solved else "HGS"), 1


def in_training(results: pd.DataFrame, trained_up_to: int | None) -> pd.DataFrame:
    """Return the results of sizes up to ``trained_up_to`` customers; all if there are none, or no limit."""
    known = results if trained_up_to is None else results[results["n"] <= trained_up_to]
    return results if known.empty else known


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean of ``values`` ``(k,)`` and its standard error, infinite for a single value."""
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.inf
    return float(values.mean()), float(error)


def mean_gap(results: pd.DataFrame, method: MethodRun) -> tuple[float, float] | None:
    """Return the mean gap of ``method`` to the baseline over all sizes in percent, and its standard error.

    None without a pair.
    """
    cost, base = paired(results, None, method, baseline_of(results))
    return mean_and_error(gap(cost, base)) if len(cost) else None


def blocks_of(results: pd.DataFrame) -> Blocks:
    """Return the results by size, method and number of samples; sizes ascend, methods keep their order."""
    names = ["n", "method", "samples"]
    groups: Any = results.sort_values("n", kind="stable").groupby(names, sort=False)
    return {(int(n), method, int(samples)): rows for (n, method, samples), rows in groups}


def figures_of(blocks: Blocks, n: int, method: MethodRun, baseline: MethodRun) -> dict[str, Any]:
    """Return the figures of ``method`` at size ``n``, by the names of `COLUMNS`; what is missing is left out.

    ``cost`` and ``seconds`` cover the solved instances, ``gap`` (percent, with the standard error of its
    mean) those that the baseline solved, too. ``wins`` counts instances with a strictly lower cost than the
    baseline, of the ``compared`` ones that the baseline solved, or all that were solved if the baseline
    diverged. ``failure`` is the most frequent reason among the ``failed``.
    """
    label, samples = method
    line: dict[str, Any] = {"n": n, "method": label, "samples": samples, "baseline": run_name(baseline)}
    block, other = blocks[n, label, samples], blocks.get((n, *baseline))
    solved = block.dropna(subset="cost")
    line |= {"instances": len(block), "failed": len(block) - len(solved)}
    if len(reasons := block["failure"].dropna()):
        line["failure"] = str(reasons.mode().iloc[0])
    if len(solved):
        line |= _spread("cost", solved["cost"].to_numpy(np.float64))
        line["seconds"] = float(solved["seconds"].mean())
    if other is None:
        return line
    cost, base = _matched(block, other)
    if len(cost):
        gaps = gap(cost, base)
        error = mean_and_error(gaps)[1]
        line |= _spread("gap", gaps) | ({"gap_error": error} if np.isfinite(error) else {})
    if len(solved) and _diverged(other):  # as in the paper's Table 6
        line |= {"wins": len(solved), "compared": len(block)}
    elif len(cost) and method != baseline:
        answered = other.dropna(subset="cost")["index"]
        line |= {"wins": wins(cost, base), "compared": int(block["index"].isin(answered).sum())}
    return line


def _spread(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Return mean, 10th and 90th percentile of ``values`` ``(k,)``, k > 0; percentiles are interpolated."""
    low, high = np.percentile(values, [_LOW, _HIGH])
    return {f"{name}_mean": float(np.mean(values)), f"{name}_p10": float(low), f"{name}_p90": float(high)}


def _diverged(rows: pd.DataFrame) -> bool:
    failures = rows["failure"].dropna()
    return len(failures) == len(rows) and any(DIVERGED in str(failure) for failure in failures)
