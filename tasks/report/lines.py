"""Lines of a benchmark's tables: per-instance results in, the columns of the paper's tables out (pandas).

Results are one row an instance, as `tasks.benchmark.run` stores them: method, n, index, samples,
cost (best of the samples), seconds, seed, device, workers, machine, other_cores, version,
configuration, failure. A cost that is missing has its reason in ``failure``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mcvrp.model.problem import COST_TOLERANCE
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.support.text import format_seconds

LOW, HIGH = 10, 90  # the 80 % inter-percentile range of the paper's tables
Blocks = Mapping[tuple[int, str, int], pd.DataFrame]  # results by size, method and number of samples
MethodRun = tuple[str, int]  # a method's label and its number of samples
DIVERGED = "diverged"  # stands in the failure of a model whose training did not converge


@dataclass(frozen=True)
class Percentiles:
    """Mean of some values and their 10th and 90th percentile."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Percentiles:
        """Return the figures of ``values`` ``(k,)``, k > 0; percentiles interpolate linearly."""
        low, high = np.percentile(values, [LOW, HIGH])
        return cls(float(np.mean(values)), float(low), float(high))


@dataclass(frozen=True)
class Published:
    """Figures of the paper in a line: as in `Line`, None where it prints a dash or has no such column."""

    instances: int
    wins: int | None
    cost: Percentiles | None
    gap: Percentiles | None
    seconds: float | None


@dataclass(frozen=True)
class Line:
    """One method at one size and number of samples.

    ``cost``, ``gap`` (percent) and ``seconds`` are None where no instance was solved;
    ``gap`` is over the instances that the baseline solved too. ``wins`` counts instances on
    which the method is strictly better than the baseline, or which a baseline that diverged
    has no answer to. ``failure`` is the commonest reason among the ``failed``, or why there are
    no ``instances`` yet. ``published`` has the paper's figures where they are comparable;
    ``is_beyond`` marks a method that the paper does not have, in a table of the paper.
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
    published: Published | None = None
    is_beyond: bool = False

    @property
    def name(self) -> str:
        """Method with its number of samples, as the paper writes it."""
        if self.method.endswith("(GS)"):
            return self.method
        if self.method.endswith(")"):
            return f"{self.method[:-1]}, s = {self.samples})"
        return f"{self.method} (s = {self.samples})"


def method_name(method: MethodRun) -> str:
    """Return a method as legends name it: "HGS", "HGS, best of 4", "FM-MCVRP (NS), best of 1,000"."""
    label, samples = method
    return label if samples == 1 else f"{label}, best of {samples:,}"


def gaps(cost: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gap of each instance to the baseline, ``100 (z - z_base) / z_base`` percent."""
    return 100 * (cost - base) / base


def wins(cost: NDArray[np.float64], base: NDArray[np.float64]) -> int:
    """Return how many instances cost less than the baseline, strictly: by more than 1e-9 of its cost."""
    return int((cost < base * (1 - COST_TOLERANCE)).sum())


def paired(
    results: pd.DataFrame, n: int | None, one: MethodRun, other: MethodRun
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two methods' costs on the instances that both solved, ``(k,)`` each, in index order.

    ``n`` None takes every size.
    """
    rows = results if n is None else results[results["n"] == n]
    return matched(
        *(rows[(rows["method"] == method) & (rows["samples"] == samples)] for method, samples in (one, other))
    )


def matched(one: pd.DataFrame, other: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the costs of two blocks of results on the instances that both solved, as `paired`."""
    ours, theirs = (rows.dropna(subset="cost")[["n", "index", "cost"]] for rows in (one, other))
    # the order of instances decides the last digits of a mean
    both = ours.merge(theirs, on=["n", "index"], suffixes=("", "_other")).sort_values(["n", "index"])
    return both["cost"].to_numpy(np.float64), both["cost_other"].to_numpy(np.float64)


def baseline_of(results: pd.DataFrame) -> MethodRun:
    """Return what gaps are to: a run of HGS, or of PyVRP where HGS has no answer, as to asymmetric costs."""
    solved = results[results["cost"].notna() & (results["samples"] == 1)]
    has_answers = set(solved["method"])  # HGS refuses costs that differ by direction
    return ("PyVRP" if "HGS" not in has_answers and "PyVRP" in has_answers else "HGS"), 1


def blocks_of(results: pd.DataFrame) -> Blocks:
    """Return the results by size, method and number of samples, sizes ascending, else as they come."""
    names = ["n", "method", "samples"]
    groups: Any = results.sort_values("n", kind="stable").groupby(names, sort=False)
    return {(int(n), method, int(samples)): rows for (n, method, samples), rows in groups}


def make_line(
    blocks: Blocks,
    n: int,
    method: str,
    samples: int,
    baseline: MethodRun,
    published: Published | None = None,
    is_beyond: bool = False,
) -> Line:
    """Return the figures of ``method`` at size ``n`` against ``baseline``; see `Line` for the others."""
    block, is_baseline = blocks.get((n, method, samples)), (method, samples) == baseline
    if block is None:
        empty = Line(n, method, samples, failure=_not_yet(blocks, n, method, samples))
        return replace(empty, is_baseline=is_baseline, published=published, is_beyond=is_beyond)
    other = blocks.get((n, *baseline))
    solved = block["cost"].dropna().to_numpy(np.float64)
    cost, base = (np.empty(0), np.empty(0)) if other is None else matched(block, other)
    won = None if is_baseline or not len(cost) else wins(cost, base)
    if len(solved) and other is not None and _diverged(other):  # it lost them all, as in the paper's Table 6
        won = len(solved)
    reasons = block["failure"].dropna()
    reason = str(reasons.mode().iloc[0]) if len(reasons) else None
    seconds = float(block.loc[block["cost"].notna(), "seconds"].mean()) if len(solved) else None
    return Line(
        n=n,
        method=method,
        samples=samples,
        instances=len(block),
        failed=len(block) - len(solved),
        is_baseline=is_baseline,
        wins=won,
        cost=Percentiles.of(solved) if len(solved) else None,
        gap=Percentiles.of(gaps(cost, base)) if len(cost) else None,
        seconds=seconds,
        run_on=run_on(block, seconds),
        failure=reason,
        published=published,
        is_beyond=is_beyond,
    )


def _not_yet(blocks: Blocks, n: int, method: str, samples: int) -> str:
    """Return why there are no results of ``method`` at ``n`` and ``samples``, in a few words."""
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
    """Return what an instance of ``block`` (one method, size, number of samples) was solved on.

    ``seconds`` is its wall-clock time: where several cores worked on an instance, the processor
    time is told too. Where several instances were solved at once, their number. Of several devices, as
    of processes that joined later, the one of most instances.
    """
    device, workers = str(block["device"].mode().iloc[0]), int(block["workers"].max())
    cores = _cores(device)
    if cores > 1 and seconds is not None:
        device += f" (CPU time {format_seconds(cores * seconds)})"
    return f"{device}, {workers} at once" if workers > 1 and seconds is not None else device


def _cores(device: str) -> int:
    """Return the cores that worked all the time, of "2 CPU cores"; the host of a GPU needs one.

    Where one thing ran after another ("2 CPU cores, then 1 CPU core"), that is not known: 1.
    """
    found = re.fullmatch(r"(\d+) CPU cores?", device)
    return int(found[1]) if found else 1
