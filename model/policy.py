"""Policy gradient of FM-MCVRP: what samples cost against the mean of their instance's samples.

REINFORCE (Williams 1992) with the samples' own mean as baseline (Kool et al. 2019b, "Buy 4 REINFORCE
samples"): no second network, no labels. Who serves the best of several samples may let the cheap ones
count for more. Paths are drawn by the cached decoder; their gradient is one teacher-forced pass, in which
the samples of an instance share its encoding and its keys.

Knows one batch; which instances a step has, and what else its loss holds, is `tasks.train`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from mcvrp.model.decoding import rollout
from mcvrp.model.features import Batch, CityTable, TravelCosts, problem_features
from mcvrp.model.loss import IGNORED, next_nodes
from mcvrp.model.network import FmMcvrp
from mcvrp.model.paths import Group, instances_of
from mcvrp.model.strategies import Sampling


@dataclass(frozen=True)
class Sampled:
    """Instances with paths that the network has drawn for them.

    Parameters
    ----------
    batch
        The instances; ``path`` ``(B * S, L)`` and ``path_lengths`` ``(B * S,)`` are of the S paths of
        each, one after the other.
    costs
        Of each path where the city's unit square has side 1, float32 ``(B, S)``.
    """

    batch: Batch
    costs: Tensor

    def advantages(self, risk: float | None = None) -> Tensor:
        """Return how much dearer each path makes its instance, as a share of what that costs, ``(B, S)``.

        Shares, so that instances of all sizes, near the depot or far, weigh alike, as in a mean gap. Without
        ``risk``, how far the path lies above the mean of all: E[A grad log p] is the gradient of the mean
        cost. With it, of the entropic risk -risk log E[exp(-cost / risk)] (Howard and Matheson 1972), in
        which cheap paths count for more, the smaller it is: from the mean towards the best of all.
        """
        mean = self.costs.mean(1, keepdim=True)
        above = (self.costs - mean) / mean.clamp_min(torch.finfo(mean.dtype).tiny)
        if risk is None:
            return above
        return risk * (1 - self.costs.shape[1] * (-above / risk).softmax(1))


def draw(model: FmMcvrp, table: CityTable, costs: TravelCosts, groups: Sequence[Group]) -> Sampled:
    """Return paths of ``groups``, each drawn from the network's own distribution by its random numbers.

    The network is in evaluation mode meanwhile: dropout would draw from another distribution than the
    one that is used.
    """
    training = model.training
    model.eval()
    with torch.no_grad():
        path = rollout(model, table, groups, Sampling())
        batch = instances_of(groups, table.delta.device)
        priced = costs(batch.ids, path)
    model.train(training)
    tokens = torch.arange(path.shape[2], device=path.device)
    last = tokens.where(path > 0, 0).amax(2)  # the last customer; the depot after it ends the path
    flat = replace(batch, path=path.flatten(0, 1), path_lengths=last.flatten() + 2)
    return Sampled(flat, priced)


def policy_loss(model: FmMcvrp, table: CityTable, sampled: Sampled, risk: float | None = None) -> Tensor:
    """Return the loss whose gradient is the policy gradient: summed over all paths, a scalar.

    Of each path its log-likelihood times its advantage, see `Sampled.advantages`.
    """
    batch = sampled.batch
    problem = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
    embeddings = model.encode(problem, batch.lengths if batch.padded else None)
    scores, target = next_nodes(model, batch, problem, embeddings, batch.path, batch.path_lengths)
    surprise = F.cross_entropy(
        scores.flatten(0, 1).float(), target.flatten(), reduction="none", ignore_index=IGNORED
    )
    likelihood = -surprise.view(*sampled.costs.shape, -1).sum(-1)  # (B, S)
    return (sampled.advantages(risk) * likelihood).sum()
