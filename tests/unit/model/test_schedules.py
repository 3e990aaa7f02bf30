from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.schedules import Kind, Schedule


@pytest.mark.parametrize("step", [1, 9_999, 10_000, 10_001, 284_261])
def test_t5_is_the_formula_of_the_paper(step: int) -> None:
    """A peak of 0.01 after 10,000 steps is 1 / sqrt(max(step, 10,000)), which ends near 0.002."""
    schedule = Schedule("t5", 0.01, warmup=10_000)
    assert schedule(step, 284_261) == pytest.approx(1 / max(step, 10_000) ** 0.5, rel=1e-12)
    assert schedule(284_261, 284_261) == pytest.approx(0.002, rel=0.07)


def test_constant_is_constant() -> None:
    for warmup in (0, 10):  # from its last step on
        schedule = Schedule("constant", 2e-3, warmup=warmup)
        assert {schedule(step, 50) for step in range(warmup or 1, 51)} == {2e-3}


def test_knee_rises_stays_and_falls_in_equal_steps() -> None:
    """The warm-up reaches the peak at its last step; the tail ends one step above 0."""
    schedule = Schedule("knee", 1.0, warmup=4, tail=0.2)
    rates = [schedule(step, 20) for step in range(1, 21)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[-5:] == [1.0, 1.0, 0.75, 0.5, 0.25]


def test_cosine_falls_along_half_a_cosine() -> None:
    """After the warm-up: the peak, half of it midway, and nearly 0 at the last step."""
    schedule = Schedule("cosine", 1.0, warmup=10)
    assert [schedule(step, 109) for step in (5, 10, 60, 110 - 1)] == pytest.approx([0.5, 1, 0.5, 0], abs=3e-4)
    falling = [schedule(step, 109) for step in range(10, 110)]
    assert all(after < before for before, after in pairwise(falling))
    turns = 2 * falling[0] - falling[1] - falling[2]
    assert turns < falling[48] - falling[51]  # flat at the top, steep midway


@given(
    kind=st.sampled_from(["constant", "cosine", "knee", "t5"]),
    steps=st.integers(1, 500),
    warmup=st.integers(1, 600),
    tail=st.floats(0, 1, exclude_min=True),
    peak=st.floats(1e-6, 1),
)
def test_every_rate_is_above_zero_and_at_most_the_peak(
    kind: Kind, steps: int, warmup: int, tail: float, peak: float
) -> None:
    """No step is wasted at a learning rate of 0, and none exceeds the peak."""
    schedule = Schedule(kind, peak, warmup, tail if kind == "knee" else 0.0)
    assert all(0 < schedule(step, steps) <= peak for step in range(1, steps + 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t5", 1.0), "warmup of at least 1 step"),
        (("t5", 1.0, 5, 0.5), "t5 has no tail: give schedule knee"),
        (("constant", 1.0, 5, 0.5), "constant has no tail: give schedule knee"),
        (("cosine", 1.0, 5, 0.5), "cosine has no tail: give schedule knee"),
        (("knee", 1.0, 5), "knee needs a tail above 0"),
    ],
)
def test_invalid_schedules_are_rejected(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(McvrpError, match=message):
        Schedule(*arguments)
