"""Policy gradient of FM-MCVRP (REINFORCE) with the mean of an instance's samples as baseline.

Williams 1992; the baseline is that of Kool et al. 2019b, "Buy 4 REINFORCE samples", up to a factor: no second
network, no labels. An optional risk parameter weights cheap samples more, for use with the best of several.
Paths are sampled by the cached decoder; their gradient is one teacher-forced pass, in which the samples of
an instance share its encoding and its keys.
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
from mcvrp.model.partial_paths import Group, instances_of
from mcvrp.model.strategies import Nucleus


@dataclass(frozen=True)
class Sampled:
    """Instances with paths sampled from the network."""

    batch: Batch  # with S consecutive paths per instance: path (B * S, L), path_lengths (B * S,)
    costs: Tensor  # float32 (B, S), with the city scaled to the unit square

    def advantages(self, risk: float | None = None) -> Tensor:
        """Return the advantage of each path, as a share of the mean cost of its instance, ``(B, S)``.

        Relative, so that instances of all sizes have equal weight, as in a mean gap. Without ``risk``, the
        distance above the mean: E[A grad log p] is (S - 1) / S of the gradient of the mean cost, as the path
        itself counts in the mean. With it, the gradient is
        that of the entropic risk -risk log E[exp(-cost / risk)] (Howard and Matheson 1972): the smaller the
        risk, the more weight cheap paths have, from the mean cost towards the minimum.
        """
        mean = self.costs.mean(1, keepdim=True)
        above = (self.costs - mean) / mean.clamp_min(torch.finfo(mean.dtype).tiny)
        if risk is None:
            return above
        return risk * (1 - self.costs.shape[1] * (-above / risk).softmax(1))


def draw(model: FmMcvrp, table: CityTable, costs: TravelCosts, groups: Sequence[Group]) -> Sampled:
    """Return paths of ``groups``, sampled from the network's distribution with their random numbers.

    The network is in evaluation mode during sampling: dropout would change the distribution.
    """
    training = model.training
    model.eval()
    with torch.no_grad():
        path = rollout(model, table, groups, Nucleus(p=1.0))
        batch = instances_of(groups, table.delta.device)
        priced = costs(batch.ids, path)
    model.train(training)
    tokens = torch.arange(path.shape[2], device=path.device)
    last = tokens.where(path > 0, 0).amax(2)  # the last customer; the depot after it ends the path
    flat = replace(batch, path=path.flatten(0, 1), path_lengths=last.flatten() + 2)
    return Sampled(flat, priced)


def policy_loss(model: FmMcvrp, table: CityTable, sampled: Sampled, risk: float | None = None) -> Tensor:
    """Return the sum over all paths of log-likelihood times advantage (`Sampled.advantages`), a scalar."""
    batch = sampled.batch
    problem = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
    embeddings = model.encode(problem, batch.key_lengths)
    scores, target = next_nodes(model, batch, problem, embeddings, batch.path, batch.path_lengths)
    surprise = F.cross_entropy(
        scores.flatten(0, 1).float(), target.flatten(), reduction="none", ignore_index=IGNORED
    )
    likelihood = -surprise.view(*sampled.costs.shape, -1).sum(-1)  # (B, S)
    return (sampled.advantages(risk) * likelihood).sum()
