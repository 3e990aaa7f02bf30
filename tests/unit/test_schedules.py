import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import McvrpError
from model.schedules import Schedule


@pytest.mark.parametrize("step", [1, 9_999, 10_000, 10_001, 284_261])
def test_t5_is_the_formula_of_the_paper(step):
    """A peak of 0.01 after 10,000 steps is 1 / sqrt(max(step, 10,000)), which ends near 0.002."""
    schedule = Schedule("t5", 0.01, warmup=10_000)
    assert schedule(step, 284_261) == pytest.approx(1 / max(step, 10_000) ** 0.5, rel=1e-12)
    assert schedule(284_261, 284_261) == pytest.approx(0.002, rel=0.07)


def test_constant_is_constant():
    """Without warm-up and tail every step has the peak."""
    schedule = Schedule("constant", 2e-3)
    assert {schedule(step, 50) for step in range(1, 51)} == {2e-3}


def test_warm_up_rises_and_the_tail_falls_in_equal_steps():
    """The warm-up reaches the peak at its last step; the tail ends one step above 0."""
    schedule = Schedule("constant", 1.0, warmup=4, tail=0.2)
    rates = [schedule(step, 20) for step in range(1, 21)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[-5:] == [1.0, 1.0, 0.75, 0.5, 0.25]


@given(
    steps=st.integers(1, 500),
    warmup=st.integers(0, 600),
    tail=st.floats(0, 1),
    peak=st.floats(1e-6, 1),
)
def test_every_rate_is_above_zero_and_at_most_the_peak(steps, warmup, tail, peak):
    """No step is wasted at a learning rate of 0, and none exceeds the peak."""
    schedule = Schedule("constant", peak, warmup, tail)
    assert all(0 < schedule(step, steps) <= peak for step in range(1, steps + 1))


@pytest.mark.parametrize(
    "wrong",
    [("constant", 0.0), ("constant", 1.0, -1), ("constant", 1.0, 0, 1.5), ("t5", 1.0), ("t5", 1.0, 5, 0.5)],
)
def test_what_makes_no_schedule_is_refused(wrong):
    """A schedule that cannot be meant is an error when it is made, not when it is used."""
    with pytest.raises(McvrpError):
        Schedule(*wrong)
