"""Decision on a challenger from paired costs: significantly better on one part, significantly worse on none.

The change of an instance is in percent of the champion's mean cost for its size: the mean of the changes is
the change of the mean cost, so that tables, tests and reasons cannot contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mcvrp.model.instances import CAPACITY_TABLE
from mcvrp.tasks.support.t_test import skewed_t_test
from mcvrp.tasks.support.text import counted

DRAWN, HELD_OUT = "drawn", "held-out"  # trial instances, driven days
LEAST_PAIRS = 30  # with fewer pairs, the test exceeds its level if changes are skewed
COLUMNS = ("part", "n", "name", "champion", "challenger")  # costs, infinite if no solution was feasible


@dataclass(frozen=True)
class Bucket:
    """Mean costs of one part and size, and the change of the mean cost in percent."""

    part: str
    sizes: str
    instances: int
    champion: float
    challenger: float
    change: float

    @classmethod
    def of(cls, part: str, sizes: str, rows: pd.DataFrame) -> Bucket:
        """Return the bucket of ``rows``, those of one part and size of `changes`."""
        means = (float(rows[column].mean()) for column in ("champion", "challenger", "change"))
        return cls(part, sizes, len(rows), *means)


@dataclass(frozen=True)
class Decision:
    """Promotion or rejection of the challenger, with reasons and figures.

    ``p_values`` are those of a one-sided paired t-test of the changes (Appendix "Test Statistics"),
    corrected for skewness and, by Holm's method, for the number of parts; parts with too few pairs have none.
    """

    promote: bool
    reasons: tuple[str, ...]
    buckets: tuple[Bucket, ...]
    p_values: dict[str, float]


def decide(pairs: pd.DataFrame, *, alpha: float, worst: float) -> Decision:
    """Return the decision that follows from ``pairs``, one row per instance with `COLUMNS`.

    The challenger is promoted if it is better on the trial instances or on the held-out days (at the joint
    level ``alpha``), solves every instance that the champion solves, and is worse on no size: there, the mean
    cost would be more than ``worst`` percent higher, on at least `LEAST_PAIRS` instances and significantly
    (at the level ``alpha``). The held-out days count as one size, too, as few of them share a range.
    """
    lost = pairs[np.isfinite(pairs["champion"]) & ~np.isfinite(pairs["challenger"])]
    both = changes(pairs)
    groups = [
        (str(part), "–".join(map(str, sorted({rows["n"].min(), rows["n"].max()}))), rows)
        for (part, _), rows in both.groupby(["part", "sizes"], sort=False)
    ]
    buckets = tuple(Bucket.of(*group) for group in groups)
    parts = {str(part): rows["change"].to_numpy() for part, rows in both.groupby("part", sort=False)}
    p_values = _holm({part: skewed_t_test(rows) for part, rows in parts.items() if len(rows) >= LEAST_PAIRS})
    against = []
    if len(lost):
        unsolved = f"{counted(len(lost), 'instance')} that the champion solves ({lost['name'].iloc[0]}, …)"
        against.append(f"the challenger does not solve {unsolved}")
    if sum(part == HELD_OUT for part, *_ in groups) > 1:
        groups.append((HELD_OUT, "", both[both["part"] == HELD_OUT]))
    against += [reason for group in groups if (reason := _worse(*group, alpha, worst))]
    better = [part for part, p in p_values.items() if p < alpha]
    if not better:
        pairs_or_p = {part: counted(len(rows), "pair") for part, rows in parts.items()}
        pairs_or_p |= {part: f"p = {p:.3f}" for part, p in p_values.items()}
        shown = [f"{part}: {parts[part].mean():+.2f} %, {text}" for part, text in pairs_or_p.items()]
        rules = [f"required: p < {alpha:g} with at least {LEAST_PAIRS} pairs"]
        if not (p_values or against):
            rules.append("run mcvrp nightly again with a larger nightly.instances")
        against.append(f"no significant improvement ({'; '.join(shown + rules)})")
    if against:
        return Decision(False, tuple(against), buckets, p_values)
    gains = [
        f"better by {-parts[part].mean():.2f} % on {part} instances (p = {p_values[part]:.3g})"
        for part in better
    ]
    tolerated = f"tolerated: fewer than {LEAST_PAIRS}, up to {worst:g} %, or not significant at any size"
    losses = [
        f"worse by {rows.mean():.2f} % on {len(rows)} {part} instances ({tolerated})"
        for part, rows in parts.items()
        if round(rows.mean(), 2) > 0
    ]
    return Decision(True, (*gains, *losses), buckets, p_values)


def _worse(part: str, sizes: str, rows: pd.DataFrame, alpha: float, worst: float) -> str:
    """Return the reason for which ``rows`` rule out a promotion, "" if they do not."""
    change = rows["change"].to_numpy()
    if len(change) < LEAST_PAIRS or change.mean() <= worst or (p := skewed_t_test(-change)) >= alpha:
        return ""
    named = f"{len(change)} {part} instances" + (f" of {sizes} customers" if sizes else "")
    return f"worse by {change.mean():.2f} % on {named} (tolerance: {worst:g} %; p = {p:.3g})"


def _holm(p_values: dict[str, float]) -> dict[str, float]:
    """Return ``p_values`` adjusted for multiple testing (Holm, 1979)."""
    adjusted, least = dict(p_values), 0.0
    for rank, part in enumerate(sorted(p_values, key=p_values.__getitem__)):
        least = adjusted[part] = max(least, min(1.0, (len(p_values) - rank) * p_values[part]))
    return adjusted


def changes(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs that both versions have solved, with columns ``sizes`` and ``change``.

    ``change`` is in percent of the mean cost of the champion for that part and size.
    """
    both = pairs[np.isfinite(pairs["champion"]) & np.isfinite(pairs["challenger"])].copy()
    # driven days rarely share a size: they are grouped by ranges
    both["sizes"] = [size_range(n) if part == HELD_OUT else str(n) for part, n in both[["part", "n"]].values]
    mean = both.groupby(["part", "sizes"], sort=False)["champion"].transform("mean")
    change = 100 * (both["challenger"] - both["champion"]) / mean
    both["change"] = change.fillna(0.0)  # 0 / 0: none of these instances costs anything
    return both


def size_range(n: int) -> str:
    """Return the row of the paper's Table 1 for ``n`` customers: "50–99"; "1–19" and "1001–" outside."""
    for first, last, *_ in CAPACITY_TABLE:
        if first <= n <= last:
            return f"{first}–{last}"
    return f"1–{CAPACITY_TABLE[0][0] - 1}" if n < CAPACITY_TABLE[0][0] else f"{CAPACITY_TABLE[-1][1] + 1}–"
