"""Decision on a challenger from pairs of costs: better beyond chance somewhere, worse nowhere.

Knows costs, not models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mcvrp.model.instances import CAPACITY_TABLE
from mcvrp.tasks.support.t_test import skewed_t_test

DRAWN, FRESH = "drawn", "fresh"  # instances of a trial's own, and days kept for comparing
LEAST_PAIRS = 30  # with fewer, a test of skewed changes does not hold its level
COLUMNS = ("part", "n", "name", "champion", "challenger")  # costs; infinite where there was no answer


@dataclass(frozen=True)
class Bucket:
    """Mean costs of one part and size, and the mean change to the challenger's in percent."""

    part: str
    sizes: str
    instances: int
    champion: float
    challenger: float
    change: float


@dataclass(frozen=True)
class Decision:
    """Promotion of the challenger or not, why in sentences, and the figures behind that.

    ``p_values`` has, for each part that can be tested, the probability of such a gain by chance:
    one-sided paired t-test of the relative changes (Appendix "Test Statistics"), corrected for their
    skewness and, by Holm's method, for the number of parts.
    """

    promote: bool
    reasons: tuple[str, ...]
    buckets: tuple[Bucket, ...]
    p_values: dict[str, float]


def decide(pairs: pd.DataFrame, *, alpha: float, worst: float) -> Decision:
    """Return what follows from ``pairs``, a row an instance with `COLUMNS`.

    The challenger is promoted where it is better on the drawn instances or on the fresh days, to
    the level ``alpha`` of both together, answers all that the champion answers, and is nowhere worse:
    in no size does the mean cost grow by more than ``worst`` percent.
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
        first = f"the first is {lost['name'].iloc[0]}"
        against.append(f"the challenger has no answer to {len(lost)} instances, {first}")
    against += [
        f"worse by {bucket.change:.2f} % on {bucket.part} instances of {bucket.sizes} customers "
        f"(at most {worst:g} % is let through)"
        for bucket in buckets
        if bucket.change > worst
    ]
    better = [part for part, p in p_values.items() if p < alpha]
    if not better:
        shown = [f"{part}: p = {p:.3f}" for part, p in p_values.items()]
        few = [f"{part}: {len(rows)} pairs" for part, rows in parts.items() if part not in p_values]
        rule = f"below {alpha:g} of {LEAST_PAIRS} pairs or more would"
        against.append(f"nothing shows that the challenger is better ({', '.join(shown + few)}; {rule})")
    if against:
        return Decision(False, tuple(against), buckets, p_values)
    gain = {part: -float(both.loc[both["part"] == part, "change"].mean()) for part in better}
    gains = tuple(
        f"better on the {part} instances by {gain[part]:.2f} % (p = {p_values[part]:.3g})" for part in better
    )
    return Decision(True, gains, buckets, p_values)


def _holm(p_values: dict[str, float]) -> dict[str, float]:
    """Return ``p_values`` adjusted so that none of all is below a level by chance more often than that."""
    adjusted, least = dict(p_values), 0.0
    for rank, part in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = adjusted[part] = max(least, min(1.0, (len(p_values) - rank) * p_values[part]))
    return adjusted


def changes(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs that both have answered, with ``change`` in percent and ``sizes`` in words."""
    both = pairs[np.isfinite(pairs["champion"]) & np.isfinite(pairs["challenger"])].copy()
    both["change"] = 100 * (both["challenger"] / both["champion"] - 1)
    # nearly every day has a size of its own, and a size needs several for a mean
    both["sizes"] = [size_range(n) if part == FRESH else str(n) for part, n in both[["part", "n"]].values]
    return both


def size_range(n: int) -> str:
    """Return which row of the paper's Table 1 has ``n`` customers: "50–99"; "1–19" and "1001–" beside it."""
    for first, last, *_ in CAPACITY_TABLE:
        if first <= n <= last:
            return f"{first}–{last}"
    return f"1–{CAPACITY_TABLE[0][0] - 1}" if n < CAPACITY_TABLE[0][0] else f"{CAPACITY_TABLE[-1][1] + 1}–"
