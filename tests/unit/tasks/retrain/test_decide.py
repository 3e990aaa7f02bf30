"""Promotion rule: significantly better on one part, worse on none, and no instance unsolved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from mcvrp.tasks.retrain.decide import COLUMNS, DRAWN, HELD_OUT, decide, size_range
from mcvrp.tasks.support.text import counted


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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({(DRAWN, 20): 0.0, (HELD_OUT, 35): 0.0}, "no significant improvement"),
        ({(DRAWN, 20): -2.0, (DRAWN, 50): 0.6}, "worse by 0.60 % on 40 drawn instances of 50 customers"),
        (
            {(DRAWN, 20): -2.0, (HELD_OUT, 60): 0.6},
            "worse by 0.60 % on 40 held-out instances of 60 customers",
        ),
        ({(DRAWN, 20): 0.0, (HELD_OUT, 35): -1.0}, "better by 1.00 % on held-out instances"),
    ],
)
def test_a_decision_has_its_reason(change: dict[tuple[str, int], float], reason: str) -> None:
    """Noise is not a gain, and a gain does not compensate for a size that is worse."""
    decision = decide(pairs(change), alpha=0.05, worst=0.5)
    assert decision.promote == reason.startswith("better")
    assert any(reason in each for each in decision.reasons)
    assert {(each.part, each.sizes) for each in decision.buckets} == {(part, str(n)) for part, n in change}


def test_an_answer_that_is_lost_forbids_it() -> None:
    """The challenger has to solve what the champion solves; instances that neither solves are ignored."""
    table = pairs({(DRAWN, 20): -2.0})
    table.loc[3, "challenger"] = np.inf
    decision = decide(table, alpha=0.05, worst=0.5)
    assert decision.reasons == (
        "the challenger does not solve 1 instance that the champion solves (drawn 3, …)",
    )
    assert "nightly.instances" not in decide(table[:29], alpha=0.05, worst=0.5).reasons[-1]
    table.loc[3, "champion"] = np.inf
    assert decide(table, alpha=0.05, worst=0.5).promote


@pytest.mark.parametrize("days", [1, 2, 29])
def test_a_few_days_show_nothing(days: int) -> None:
    decision = decide(pairs({(HELD_OUT, 30): -5.0}, count=days), alpha=0.05, worst=0.5)
    assert not decision.promote
    assert f" %, {counted(days, 'pair')}; required: p < 0.05 with at least 30 pairs;" in decision.reasons[0]
    assert decide(pairs({(HELD_OUT, 30): -5.0}, count=30), alpha=0.05, worst=0.5).promote


@pytest.mark.parametrize(("count", "days", "named"), [(29, 29, True), (30, 29, False), (29, 30, False)])
def test_more_instances_are_the_remedy_if_nothing_was_tested(count: int, days: int, named: bool) -> None:
    """After a test, another comparison would be a second chance."""
    table = pd.concat([pairs({(DRAWN, 20): 0.0}, count), pairs({(HELD_OUT, 20): 0.0}, days)])
    decision = decide(table, alpha=0.05, worst=0.5)
    assert ("nightly.instances" in decision.reasons[0]) == named


@pytest.mark.parametrize(("percent", "count", "spread"), [(2.0, 12, 0.2), (0.3, 40, 0.2), (2.0, 40, 20.0)])
def test_a_promotion_names_the_part_that_became_worse(percent: float, count: int, spread: float) -> None:
    """Few days, a tolerated increase, or one that is not significant do not rule it out."""
    fresh = pairs({(HELD_OUT, 35): percent}, count, spread)
    decision = decide(pd.concat([pairs({(DRAWN, 20): -2.0}), fresh]), alpha=0.05, worst=0.5)
    assert decision.promote
    assert decision.reasons[0].startswith("better by 2.00 % on drawn instances")
    assert f" % on {count} held-out instances (tolerated: " in decision.reasons[1]


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.2, 3.0])
def test_a_clear_gain_is_shown_whatever_its_skewness(spread: float) -> None:
    rng = np.random.default_rng(3)
    for skewed in (rng.exponential(1, 30) - 1, 1 - rng.exponential(1, 30)):
        table = pd.DataFrame({"part": DRAWN, "n": 20, "name": "i", "champion": np.full(30, 5.0)})
        table["challenger"] = table["champion"] * (1 + (spread * skewed - 10) / 100)
        decision = decide(table, alpha=0.05, worst=0.5)
        assert decision.promote, decision.reasons


def test_two_parts_share_the_level() -> None:
    """Holm: the smaller p-value of two parts is doubled, the other is at least that; one alone stays."""
    for drawn, fresh in ((-0.06, -0.03), (-0.03, -0.06), (-0.2, 0.1), (-0.05, -0.05)):
        table = pairs({(DRAWN, 20): drawn, (HELD_OUT, 35): fresh})
        alone = [
            decide(rows, alpha=0.05, worst=0.5).p_values for _, rows in table.groupby("part", sort=False)
        ]
        single = {**alone[0], **alone[1]}
        both = decide(table, alpha=0.05, worst=0.5).p_values
        less, more = sorted(single, key=single.__getitem__)
        assert both[less] == min(1, 2 * single[less])
        assert both[more] == max(both[less], single[more])


def test_a_few_days_rule_out_nothing() -> None:
    """The mean of relative changes rises, the mean cost falls, and three days are no evidence."""
    days = pd.DataFrame(
        [
            (HELD_OUT, 22, "2026-01-05", 80_000.0, 82_000.0),
            (HELD_OUT, 24, "2026-01-06", 90_000.0, 91_800.0),
            (HELD_OUT, 45, "2026-01-07", 253_738.0, 248_093.0),
        ],
        columns=list(COLUMNS),
    )
    assert 100 * (days["challenger"] / days["champion"] - 1).mean() > 0.5
    decision = decide(pd.concat([pairs({(DRAWN, 20): -2.0}), days]), alpha=0.05, worst=0.5)
    assert decision.promote, decision.reasons
    assert decision.buckets[1].change == pytest.approx(100 * (140_631 / 141_246 - 1))


def test_days_of_several_sizes_rule_out_a_promotion_together() -> None:
    """No range of sizes has 30 days, all together have."""
    few = pairs({(HELD_OUT, 30): 1.0, (HELD_OUT, 70): 1.0}, count=20)
    decision = decide(pd.concat([pairs({(DRAWN, 20): -2.0}), few]), alpha=0.05, worst=0.5)
    (reason,) = decision.reasons
    assert reason.startswith("worse by 1.00 % on 40 held-out instances (")


def test_the_days_of_a_range_have_their_own_sizes() -> None:
    decision = decide(pairs({(HELD_OUT, n): 0.0 for n in (8, 12, 60)}, count=5), alpha=0.05, worst=0.5)
    assert [(each.sizes, each.instances) for each in decision.buckets] == [("8–12", 10), ("60", 5)]


def test_days_that_cost_nothing_have_not_changed() -> None:
    """Days of one order at the depot's own address, the only ones of their size."""
    day = (HELD_OUT, 1, "2026-01-05", 0.0, 0.0)
    days = pd.concat([pairs({(HELD_OUT, 30): -2.0}), pd.DataFrame([day], columns=list(COLUMNS))])
    decision = decide(days, alpha=0.05, worst=0.5)
    assert decision.promote, decision.reasons
    assert decision.buckets[1].change == 0


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.5, 2), st.integers(15, 60)), min_size=1, max_size=40)
)
def test_the_change_of_a_size_is_that_of_its_mean_costs(days: list[tuple[float, float, int]]) -> None:
    """No table contradicts itself, whatever the costs of its days."""
    rows = [(HELD_OUT, n, "day", cost, cost * ratio) for cost, ratio, n in days]
    for bucket in decide(pd.DataFrame(rows, columns=list(COLUMNS)), alpha=0.05, worst=0.5).buckets:
        assert bucket.change == pytest.approx(100 * (bucket.challenger / bucket.champion - 1), abs=1e-9)


@settings(max_examples=30)
@given(st.floats(-3, 3), st.floats(-3, 3))
def test_never_promoted_where_a_size_is_worse(drawn: float, fresh: float) -> None:
    decision = decide(pairs({(DRAWN, 20): drawn, (HELD_OUT, 20): fresh}), alpha=0.05, worst=0.5)
    assert decision.promote == (max(drawn, fresh) <= 0.5 and min(decision.p_values.values()) < 0.05)


def test_sizes_have_a_range() -> None:
    expected = ["1–19", "20–49", "50–99", "200–400", "401–1000", "1001–"]
    assert [size_range(n) for n in (3, 20, 99, 400, 401, 2000)] == expected


def nulls(kind: str, count: int) -> Iterator[pd.DataFrame]:
    """Yield trials of challengers that are as good as the champion: noise of mean 0."""
    rng = np.random.default_rng(7)
    draw = {
        "normal": lambda size: rng.normal(0, 1, size),
        "rare losses": lambda size: rng.exponential(1, size) - 1,  # gains are small and many: skewness 2
        "rare gains": lambda size: 1 - rng.exponential(1, size),
        "heavy tails": lambda size: rng.standard_t(3, size),
    }[kind]
    parts = [(DRAWN, n, 100) for n in (20, 22, 24)] + [(HELD_OUT, 30, 30)]
    part, n = (np.repeat([each[k] for each in parts], [each[2] for each in parts]) for k in (0, 1))
    for _ in range(count):
        champion = rng.uniform(5, 6, len(n))
        challenger = champion * (1 + 0.005 * draw(len(n)))
        yield pd.DataFrame(dict(zip(COLUMNS, (part, n, "i", champion, challenger), strict=True)))


@pytest.mark.parametrize(
    ("kind", "trials"),
    [
        ("rare losses", 250),
        *(
            pytest.param(kind, 1000, marks=pytest.mark.slow)
            for kind in ("normal", "rare gains", "heavy tails")
        ),
    ],
)
def test_challengers_that_are_no_better_are_rarely_promoted(kind: str, trials: int) -> None:
    """In 6 of 100 trials at most: with rare losses on 30 days, 5.8 % are, at a level of 5 %."""
    promoted = sum(decide(pairs, alpha=0.05, worst=0.5).promote for pairs in nulls(kind, trials))
    assert promoted <= binom.ppf(0.99, trials, 0.06)
