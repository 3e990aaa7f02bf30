"""Decision on a challenger from paired costs: significantly better on one part, worse on none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mcvrp.model.instances import CAPACITY_TABLE
from mcvrp.tasks.support.t_test import skewed_t_test

DRAWN, FRESH = "drawn", "fresh"  # trial instances, held-out days
LEAST_PAIRS = 30  # with fewer pairs, the test exceeds its level if changes are skewed
COLUMNS = ("part", "n", "name", "champion", "challenger")  # costs, infinite if no solution was feasible


@dataclass(frozen=True)
class Bucket:
    """Mean costs of one part and size, and the mean change from champion to challenger in percent."""

    part: str
    sizes: str
    instances: int
    champion: float
    challenger: float
    change: float


@dataclass(frozen=True)
class Decision:
    """Promotion or rejection of the challenger, with reasons and figures.

    ``p_values`` are those of a one-sided paired t-test of the relative changes (Appendix "Test Statistics"),
    corrected for skewness and, by Holm's method, for the number of parts; parts with too few pairs have none.
    """

    promote: bool
    reasons: tuple[str, ...]
    buckets: tuple[Bucket, ...]
    p_values: dict[str, float]


def decide(pairs: pd.DataFrame, *, alpha: float, worst: float) -> Decision:
    """Return the decision that follows from ``pairs``, one row per instance with `COLUMNS`.

    The challenger is promoted if it is better on the trial instances or on the fresh days (at the joint
    level ``alpha``), solves every instance that the champion solves, and increases the mean cost of no size
    by more than ``worst`` percent.
    """
    lost = pairs[np.isfinite(pairs["champion"]) & ~np.isfinite(pairs["challenger"])]
    both = changes(pairs)
    columns = ("champion", "challenger", "change")
    buckets = tuple(
        Bucket(str(part), str(sizes), len(rows), *(float(rows[column].mean()) for column in columns))
        for (part, sizes), rows in both.groupby(["part", "sizes"], sort=False)
    )
    parts = {str(part): rows["change"].to_numpy() for part, rows in both.groupby("part", sort=False)}
    p_values = _holm({part: skewed_t_test(rows) for part, rows in parts.items() if len(rows) >= LEAST_PAIRS})
    against = []
    if len(lost):
        unsolved = f"{len(lost)} instances that the champion solves ({lost['name'].iloc[0]}, …)"
        against.append(f"the challenger does not solve {unsolved}")
    against += [
        f"worse by {bucket.change:.2f} % on {bucket.part} instances of {bucket.sizes} customers "
        f"(tolerance: {worst:g} %)"
        for bucket in buckets
        if bucket.change > worst
    ]
    better = [part for part, p in p_values.items() if p < alpha]
    if not better:
        shown = [f"{part}: p = {p:.3f}" for part, p in p_values.items()]
        few = [f"{part}: {len(rows)} pairs" for part, rows in parts.items() if part not in p_values]
        rule = f"required: p < {alpha:g} with at least {LEAST_PAIRS} pairs"
        against.append(f"no significant improvement ({', '.join(shown + few)}; {rule})")
    if against:
        return Decision(False, tuple(against), buckets, p_values)
    gain = {part: -float(both.loc[both["part"] == part, "change"].mean()) for part in better}
    gains = tuple(
        f"better by {gain[part]:.2f} % on {part} instances (p = {p_values[part]:.3g})" for part in better
    )
    return Decision(True, gains, buckets, p_values)


def _holm(p_values: dict[str, float]) -> dict[str, float]:
    """Return ``p_values`` adjusted for multiple testing (Holm, 1979)."""
    adjusted, least = dict(p_values), 0.0
    for rank, part in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = adjusted[part] = max(least, min(1.0, (len(p_values) - rank) * p_values[part]))
    return adjusted


def changes(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs that both versions have solved, with columns ``change`` (percent) and ``sizes``."""
    both = pairs[np.isfinite(pairs["champion"]) & np.isfinite(pairs["challenger"])].copy()
    both["change"] = 100 * (both["challenger"] / both["champion"] - 1)
    # driven days rarely share a size: they are grouped by ranges
    both["sizes"] = [size_range(n) if part == FRESH else str(n) for part, n in both[["part", "n"]].values]
    return both


def size_range(n: int) -> str:
    """Return the row of the paper's Table 1 for ``n`` customers: "50–99"; "1–19" and "1001–" outside."""
    for first, last, *_ in CAPACITY_TABLE:
        if first <= n <= last:
            return f"{first}–{last}"
    return f"1–{CAPACITY_TABLE[0][0] - 1}" if n < CAPACITY_TABLE[0][0] else f"{CAPACITY_TABLE[-1][1] + 1}–"
