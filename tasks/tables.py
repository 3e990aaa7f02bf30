"""The benchmark's tables: per-instance results in, the columns of the paper's tables out (pandas).

How a table is written down is `tasks.table_formats`' business.

Results are one row an instance, as `tasks.benchmark` stores them: method, n, index, samples,
cost (best of the samples), seconds, device, workers, failure, configuration. A cost that is
missing has its reason in ``failure``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.problem import COST_TOLERANCE

LOW, HIGH = 10, 90  # the 80 % inter-percentile range of the paper's tables


@dataclass(frozen=True)
class Range:
    """Mean of some values and their 10th and 90th percentile."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Range:
        """Return the figures of ``values`` ``(k,)``, k > 0; percentiles interpolate linearly."""
        low, high = np.percentile(values, [LOW, HIGH])
        return cls(float(np.mean(values)), float(low), float(high))


@dataclass(frozen=True)
class Line:
    """One method at one size and number of samples.

    ``cost``, ``gap`` (percent) and ``seconds`` are None where no instance was solved;
    ``gap`` is over the instances that the baseline solved too. ``wins`` counts instances on
    which the method is strictly better than the baseline. ``failure`` is the commonest
    reason among the ``failed``.
    """

    n: int
    method: str
    samples: int
    instances: int
    failed: int
    is_baseline: bool
    wins: int | None
    cost: Range | None
    gap: Range | None
    seconds: float | None
    run_on: str
    failure: str | None

    @property
    def name(self) -> str:
        """The method with its number of samples, as the paper writes it."""
        if self.method.endswith("(GS)"):
            return self.method
        if self.method.endswith(")"):
            return f"{self.method[:-1]}, s = {self.samples})"
        return f"{self.method} (s = {self.samples})"


@dataclass(frozen=True)
class Table:
    """Lines in the order of size, then of the results, with a caption and notes below."""

    caption: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    decimals: int = 2


def gaps(cost: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gap of each instance to the baseline, ``100 (z - z_base) / z_base`` percent."""
    return 100 * (cost - base) / base


def wins(cost: NDArray[np.float64], base: NDArray[np.float64]) -> int:
    """Return how many instances cost less than the baseline, strictly: by more than 1e-9."""
    return int((cost < base - COST_TOLERANCE).sum())


def paired(
    results: pd.DataFrame, n: int | None, one: tuple[str, int], other: tuple[str, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two methods' costs on the instances that both solved, ``(k,)`` each, in index order.

    A method is named by (method, samples); ``n`` None takes every size.
    """
    rows = results if n is None else results[results["n"] == n]
    columns = [
        rows[(rows["method"] == method) & (rows["samples"] == samples)].set_index(["n", "index"])["cost"]
        for method, samples in (one, other)
    ]
    both = pd.concat(columns, axis=1, join="inner", keys=["one", "other"]).dropna().sort_index()
    return both["one"].to_numpy(np.float64), both["other"].to_numpy(np.float64)


def make_table(
    results: pd.DataFrame,
    caption: str,
    *,
    baseline: str = "HGS",
    baseline_samples: int | None = 1,
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of ``results`` against ``baseline``.

    Parameters
    ----------
    results
        One row an instance, method and number of samples.
    baseline_samples
        The baseline's number of samples; None compares at equal numbers.
    notes
        What stands below the table, before what the data itself says (number of
        instances, configurations, failures).
    """
    lines = tuple(_lines(results, baseline, baseline_samples))
    return Table(caption, lines, (*_data_notes(lines, results), *notes))


def _lines(results: pd.DataFrame, baseline: str, baseline_samples: int | None) -> Iterator[Line]:
    for n in sorted(results["n"].unique().tolist()):
        rows = results[results["n"] == n]
        for (method, samples), block in rows.groupby(["method", "samples"], sort=False):
            other = samples if baseline_samples is None else baseline_samples
            is_baseline = (method, samples) == (baseline, other)
            cost, base = paired(rows, n, (method, samples), (baseline, other))
            solved = block["cost"].dropna().to_numpy(np.float64)
            reasons = block["failure"].dropna()
            yield Line(
                n=n,
                method=method,
                samples=samples,
                instances=len(block),
                failed=len(block) - len(solved),
                is_baseline=is_baseline,
                wins=None if is_baseline or not len(cost) else wins(cost, base),
                cost=Range.of(solved) if len(solved) else None,
                gap=Range.of(gaps(cost, base)) if len(cost) else None,
                seconds=float(block.loc[block["cost"].notna(), "seconds"].mean()) if len(solved) else None,
                run_on=_run_on(block),
                failure=str(reasons.mode().iloc[0]) if len(reasons) else None,
            )


def _run_on(block: pd.DataFrame) -> str:
    device, workers = str(block["device"].iloc[0]), int(block["workers"].max())
    return f"{device}, {workers} at once" if workers > 1 else device


def _data_notes(lines: Sequence[Line], results: pd.DataFrame) -> Iterator[str]:
    counts = {line.n: line.instances for line in lines}
    if len(set(counts.values())) == 1:
        yield f"Means over {next(iter(counts.values())):,} held-out instances of each size."
    else:
        sizes = ", ".join(f"{count:,} (N = {n})" for n, count in counts.items())
        yield f"Means over held-out instances: {sizes}."
    yield (
        "Obj.: travel cost; 80 %: 10th to 90th percentile; gap: mean of each instance's gap to the baseline; "
        "wins: instances strictly better than the baseline; s: number of samples or runs, the best counts."
    )
    yield "Time: wall-clock per instance as run, on what the last column says."
    for (method, text), _ in results.groupby(["method", "configuration"], sort=False):
        yield f"{method}: {text}."
    for line in lines:
        if line.failed and line.cost:
            yield (
                f"{line.name}, N = {line.n}: no answer on {line.failed} of {line.instances} instances "
                f"({line.failure}); its figures leave them out."
            )
    for method, failure in dict.fromkeys((x.method, x.failure) for x in lines if x.cost is None):
        yield f"{method} has no figures: {failure}."
