import math

import numpy as np
import pytest

from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.train.log import Watch


def row(step, problem, solution=math.nan):
    return StepMetrics(step, step, problem, 0.5, solution, 0.5, 0.01, 1.0, 1e4, 0.0)


def trouble(losses, choices=101, limit=20, every=1):
    """Return what a watch says of the row at which it first says something, and that row's step."""
    watch = Watch("problem", choices, limit)
    for k, loss in enumerate(losses, start=1):
        if said := watch.update(row(k * every, loss)):
            return said, k * every
    return None


def test_a_double_descent_is_no_divergence():
    """A loss that falls, stays on a plateau, rises a good deal and falls again goes on to its end."""
    falls = np.linspace(4.6, 1.2, 100)
    curve = [*falls, *[1.2] * 5000, *np.linspace(1.2, 2.0, 500), *[2.0] * 2000, *np.linspace(2.0, 0.09, 500)]
    assert trouble(curve) is None


@pytest.mark.parametrize("best", [0.002, 0.3, 2.0])
def test_a_loss_far_above_its_best_for_good_is_a_divergence(best):
    """Above five times and one nat over the best, or uniform guessing: out after `limit` steps, named."""
    bound = min(math.log(101), max(5 * best, best + 1))
    assert trouble([best] * 50 + [bound - 0.01] * 500) is None
    said, step = trouble([best] * 50 + [bound + 0.01] * 500)
    assert step == 50 + 20 + 1
    assert "has diverged" in said
    assert "on problem tokens" in said


def test_a_spike_is_forgiven():
    """A loss that comes back in time may go wrong again: steps are counted in a row."""
    assert trouble(([0.5] * 5 + [9.0] * 20) * 40) is None


def test_never_better_than_guessing_is_a_divergence():
    """A loss above ln(choices) from the start is given `limit` steps to come down."""
    assert trouble([5.0] * 20 + [4.0] * 100) is None
    said, step = trouble([5.0] * 100)
    assert step == 21
    assert "uniform guessing 4.62" in said


def test_steps_are_counted_not_rows():
    """A row stands for the steps since the row before."""
    assert trouble([0.5] + [9.0] * 2, every=10) is None
    assert trouble([0.5] + [9.0] * 3, every=10)[1] == 40


def test_a_stream_that_is_not_trained_is_not_watched():
    """NaN stands for a loss that a phase has not; loss that is no number is found elsewhere."""
    watch = Watch("solution", 21, 1)
    assert all(watch.update(row(step, 1.0)) is None for step in range(1, 50))
