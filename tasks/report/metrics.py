"""Metrics of a benchmark: gap, wins, percentiles, paired costs, and the lines of its tables.

Results are a frame with one row per instance, method and number of samples, as `BenchmarkResults.frame` has
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.problem import COST_TOLERANCE, gap
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.support.text import format_seconds

Blocks = Mapping[tuple[int, str, int], pd.DataFrame]  # results by size, method and number of samples
DIVERGED = "diverged"  # part of the failure of a model whose training did not converge
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


@dataclass(frozen=True)
class Line:
    """One method at one size and number of samples.

    ``cost``, ``gap`` (percent) and ``seconds`` are None if no instance was solved; ``gap`` covers the
    instances that the baseline solved too. ``wins`` counts instances with a strictly lower cost than the
    baseline, of the ``compared`` ones that the baseline solved, or all that were solved if the baseline
    diverged. ``failure`` is the most frequent reason among the ``failed``, or the reason why there are no
    ``instances``. ``published`` is the paper's line if it is comparable, with None for a dash; ``is_beyond``
    marks a method that the paper does not have.
    """

    n: int
    method: str
    samples: int
    instances: int = 0
    failed: int = 0
    is_baseline: bool = False
    wins: int | None = None
    cost: Percentiles | None = None
    gap: Percentiles | None = None
    seconds: float | None = None
    run_on: str = "–"
    failure: str | None = None
    published: Line | None = None
    is_beyond: bool = False
    compared: int = 0

    @property
    def name(self) -> str:
        """Method with its number of samples, in the paper's notation."""
        if self.method.endswith("(GS)"):
            return self.method
        if self.method.endswith(")"):
            return f"{self.method[:-1]}, s = {self.samples})"
        return f"{self.method} (s = {self.samples})"


def method_name(method: MethodRun) -> str:
    """Return the name of a method in legends: "HGS", "HGS, best of 4", "FM-MCVRP (NS), best of 1,000"."""
    label, samples = method
    return label if samples == 1 else f"{label}, best of {samples:,}"


def blocks_of(results: pd.DataFrame) -> Blocks:
    """Return the results by size, method and number of samples; sizes ascend, methods keep their order."""
    names = ["n", "method", "samples"]
    groups: Any = results.sort_values("n", kind="stable").groupby(names, sort=False)
    return {(int(n), method, int(samples)): rows for (n, method, samples), rows in groups}


def make_line(
    blocks: Blocks,
    n: int,
    method: str,
    samples: int,
    baseline: MethodRun,
    published: Line | None = None,
    is_beyond: bool = False,
) -> Line:
    """Return the line of ``method`` at size ``n`` with gaps to ``baseline``; see `Line`."""
    is_baseline = (method, samples) == baseline
    line = Line(n, method, samples, is_baseline=is_baseline, published=published, is_beyond=is_beyond)
    block, other = blocks.get((n, method, samples)), blocks.get((n, *baseline))
    if block is None:
        return replace(line, failure=_not_yet(blocks, n, method, samples))
    solved = block["cost"].dropna().to_numpy(np.float64)
    cost, base = (np.empty(0), np.empty(0)) if other is None else matched(block, other)
    won = None if line.is_baseline or not len(cost) else wins(cost, base)
    compared = 0 if other is None else int(block["index"].isin(other.dropna(subset="cost")["index"]).sum())
    if len(solved) and other is not None and _diverged(other):  # as in the paper's Table 6
        won, compared = len(solved), len(block)
    reasons = block["failure"].dropna()
    seconds = float(block.loc[block["cost"].notna(), "seconds"].mean()) if len(solved) else None
    return replace(
        line,
        instances=len(block),
        failed=len(block) - len(solved),
        wins=won,
        compared=compared,
        cost=Percentiles.of(solved) if len(solved) else None,
        gap=Percentiles.of(gap(cost, base)) if len(cost) else None,
        seconds=seconds,
        run_on=run_on(block, seconds),
        failure=str(reasons.mode().iloc[0]) if len(reasons) else None,
    )


def _not_yet(blocks: Blocks, n: int, method: str, samples: int) -> str:
    sizes = {size for size, label, _ in blocks if label == method}
    if not sizes:
        name = next((name for name, entry in all_methods().items() if entry.label == method), None)
        hint = f": add {name} to benchmark.methods" if name else ""
        return f"not among the methods of this benchmark{hint}"
    return f"not run with s = {samples} yet" if n in sizes else f"not run yet on {n} customers"


def _diverged(rows: pd.DataFrame) -> bool:
    failures = rows["failure"].dropna()
    return len(failures) == len(rows) and any(DIVERGED in str(failure) for failure in failures)


def run_on(block: pd.DataFrame, seconds: float | None) -> str:
    """Return the device of an instance of ``block`` (one method, size and number of samples).

    Adds the processor time if several cores worked on an instance for ``seconds``, and the number of
    instances solved in parallel. If devices differ, because processes joined later, it is the most frequent
    one.
    """
    device, workers = str(block["device"].mode().iloc[0]), int(block["workers"].max())
    match = re.fullmatch(r"(\d+) CPU cores?", device)
    cores = int(match[1]) if match else 1  # a GPU, or the number changed on the way
    if cores > 1 and seconds is not None:
        device += f" (CPU time {format_seconds(cores * seconds)})"
    return f"{device}, {workers} at once" if workers > 1 and seconds is not None else device
