"""REINFORCE with a greedy-rollout baseline (Kool et al. 2019, their Algorithm 1).

The baseline of an instance is the cost of the greedy route of a frozen copy of the network, which is
updated at the end of an epoch if a one-sided paired t-test is significant; in the first epochs, the
exponential mean of the costs. `tasks.attention.train` runs the epochs.
"""

from __future__ import annotations

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
    """Return the costs of the greedy routes of ``model`` in evaluation mode, ``(B,)``."""
    training = model.training
    model.eval()
    with torch.no_grad():
        greedy = costs(orders.ids, rollout(model, model.encode(orders), orders))[:, 0]
    model.train(training)
    return greedy


def surrogate(
    model: AttentionModel, costs: TravelCosts, orders: Orders, uniforms: Tensor, baseline: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the REINFORCE loss and the costs ``(B, S)`` of the paths sampled by ``uniforms`` ``(B, S, 2n)``.

    ``baseline`` is one per instance, ``(B,)``, or ``(1,)`` for all.
    """
    nodes = model.encode(orders)
    path = rollout(model, nodes, orders, uniforms)
    cost = costs(orders.ids, path)
    likelihood = model.log_likelihood(nodes, orders, path)
    return ((cost - baseline[:, None]) * likelihood).mean(), cost


def better(candidate: NDArray[np.float64], baseline: NDArray[np.float64], alpha: float = ALPHA) -> bool:
    """Return whether ``candidate`` costs significantly less on the same instances: paired t-test."""
    if candidate.mean() >= baseline.mean():
        return False
    return bool(ttest_rel(candidate, baseline, alternative="less").pvalue < alpha)
