"""REINFORCE with a greedy-rollout baseline (Kool et al. 2019, their Algorithm 1).

The baseline of an instance is the cost of the greedy route of a frozen copy of the network, which a
one-sided paired t-test replaces at the end of an epoch; in the first epochs, the exponential mean of
the costs. Knows one step and one comparison; who counts epochs is in `tasks.attention.train`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ttest_rel
from torch import Tensor

from mcvrp.model.attention_model import AttentionModel, Orders, rollout
from mcvrp.model.features import TravelCosts

ALPHA = 0.05  # of the t-test
DECAY = 0.8  # of the exponential baseline


def greedy_costs(model: AttentionModel, costs: TravelCosts, orders: Orders) -> Tensor:
    """Return what the greedy routes of ``model``, in evaluation mode meanwhile, cost, ``(B,)``."""
    training = model.training
    model.eval()
    with torch.no_grad():
        found = costs(orders.ids, rollout(model, model.encode(orders), orders))[:, 0]
    model.train(training)
    return found


def surrogate(
    model: AttentionModel, costs: TravelCosts, orders: Orders, uniforms: Tensor, baseline: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the loss whose gradient is REINFORCE's, and the costs ``(B, S)`` of the paths drawn.

    Parameters
    ----------
    uniforms
        Doubles in [0, 1) ``(B, S, 2n)`` that draw the paths.
    baseline
        What is taken from each cost, ``(B,)``, or ``(1,)`` for all.
    """
    nodes = model.encode(orders)
    path = rollout(model, nodes.detached(), orders, uniforms)
    cost = costs(orders.ids, path)
    likelihood = model.log_likelihood(nodes, orders, path)
    return ((cost - baseline[:, None]) * likelihood).mean(), cost


def better(candidate: NDArray[np.float64], baseline: NDArray[np.float64], alpha: float = ALPHA) -> bool:
    """Return whether ``candidate`` costs less than ``baseline`` on the same instances, significantly.

    A one-sided paired t-test.
    """
    if candidate.mean() >= baseline.mean():
        return False
    return bool(ttest_rel(candidate, baseline, alternative="less").pvalue < alpha)


def diverged(means: Sequence[float], untrained: float, factor: float, epochs: int) -> bool:
    """Return whether training has come apart, from the mean greedy cost at each epoch's end.

    It has when the last ``epochs`` of ``means`` all are no better than ``untrained``, the cost before
    training, or above ``factor`` times the best before them: routes that bad do not come back.
    """
    best, streak = untrained, 0
    for mean in means:
        bad = not mean < untrained or mean > factor * best
        streak = streak + 1 if bad else 0
        best = min(best, mean)
    return streak >= epochs
