"""Rule of promotion: better somewhere beyond chance, worse nowhere, and no answer lost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from mcvrp.tasks.retrain.decide import COLUMNS, DRAWN, FRESH, decide, size_range


def pairs(change: dict[tuple[str, int], float], count: int = 40, spread: float = 0.2) -> pd.DataFrame:
    """Return costs where the challenger's differ by about ``change`` percent for each part and size."""
    rng = np.random.default_rng(1)
    rows = []
    for (part, n), percent in change.items():
        champion = rng.uniform(5, 6, count)
        noise = rng.normal(0, spread, count)
        challenger = champion * (1 + (percent + noise - noise.mean()) / 100)
        rows += [
            (part, n, f"{part} {i}", *costs) for i, costs in enumerate(zip(champion, challenger, strict=True))
        ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_a_better_challenger_is_promoted() -> None:
    """A gain beyond chance on fresh days, nothing lost on the drawn instances."""
    decision = decide(pairs({(DRAWN, 20): 0.0, (FRESH, 35): -1.0}), alpha=0.05, worst=0.5)
    assert decision.promote
    assert decision.reasons[0].startswith("better on the fresh instances by 1.00 %")
    assert {(bucket.part, bucket.sizes) for bucket in decision.buckets} == {(DRAWN, "20"), (FRESH, "20–49")}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({(DRAWN, 20): 0.0, (FRESH, 35): 0.0}, "nothing shows that the challenger is better"),
        ({(DRAWN, 20): -2.0, (DRAWN, 50): 0.6}, "worse by 0.60 % on drawn instances of 50 customers"),
        ({(DRAWN, 20): -2.0, (FRESH, 60): 0.6}, "worse by 0.60 % on fresh instances of 50–99 customers"),
    ],
)
def test_no_promotion_without_a_gain_or_with_a_loss(
    change: dict[tuple[str, int], float], reason: str
) -> None:
    """Chance is no gain, and a gain does not make up for a size that is worse."""
    decision = decide(pairs(change), alpha=0.05, worst=0.5)
    assert not decision.promote
    assert any(reason in each for each in decision.reasons)


def test_an_answer_that_is_lost_forbids_it() -> None:
    """The challenger needs an answer where the champion had one; where neither has, nothing follows."""
    table = pairs({(DRAWN, 20): -2.0})
    table.loc[3, "challenger"] = np.inf
    decision = decide(table, alpha=0.05, worst=0.5)
    assert decision.reasons == ("the challenger has no answer to 1 instances, the first is drawn 3",)
    table.loc[3, "champion"] = np.inf
    assert decide(table, alpha=0.05, worst=0.5).promote


def test_one_day_shows_nothing() -> None:
    """A single pair cannot be tested."""
    decision = decide(pairs({(FRESH, 30): -5.0}, count=1), alpha=0.05, worst=0.5)
    assert not decision.promote
    assert "too few instances" in decision.reasons[0]


@settings(max_examples=30)
@given(st.floats(-3, 3), st.floats(-3, 3))
def test_never_promoted_where_a_size_is_worse(drawn: float, fresh: float) -> None:
    """A mean change above the bound forbids it, at any gains."""
    decision = decide(pairs({(DRAWN, 20): drawn, (FRESH, 20): fresh}), alpha=0.05, worst=0.5)
    assert decision.promote == (max(drawn, fresh) <= 0.5 and min(decision.p_values.values()) < 0.05)


def test_sizes_have_a_range() -> None:
    """The paper's Table 1, and what lies beside it."""
    assert [size_range(n) for n in (3, 20, 99, 400, 401, 2000)] == [
        "1–19",
        "20–49",
        "50–99",
        "200–400",
        "401–1000",
        "1001–",
    ]
