"""Cross-entropy of problem and solution tokens (Eq. 3), as sums that can be added up.

A batch may be cut into micro-batches, ranks and accumulation steps: each adds its sums, and
dividing by the token counts of the global batch gives the loss of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from model.features import Batch, CityTable, feasible_along, problem_features, solution_features
from model.network import FmMcvrp


@dataclass(frozen=True)
class StreamLoss:
    """One stream's tokens: summed cross-entropy, right answers and count, scalar tensors."""

    loss_sum: Tensor
    correct: Tensor
    tokens: Tensor


@dataclass(frozen=True)
class Losses:
    """Both streams; ``solution`` is None where only the encoder is trained."""

    problem: StreamLoss
    solution: StreamLoss | None


def losses(model: FmMcvrp, table: CityTable, batch: Batch, train_decoder: bool = True) -> Losses:
    """Return the summed losses of ``batch`` over its non-padding tokens.

    The problem stream names the node of each problem token among all classes. The solution
    stream predicts the path's next node among those that mask M allows.
    """
    problem = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
    padded = None if bool((batch.lengths == batch.ids.shape[1]).all()) else batch.lengths
    embeddings = model.encode(problem, padded)  # (B, T, D)
    own = _inside(batch.lengths, batch.ids.shape[1])
    problem_loss = _stream(model.output(embeddings[own]), batch.ids[own])
    if not train_decoder:
        return Losses(problem_loss, None)
    path, target = batch.path[:, :-1], batch.path[:, 1:]
    solution = solution_features(problem, batch.demands, batch.capacity, path)
    decoded = model.decode(solution, model.memory(embeddings, padded))  # (B, L, D)
    scores = model.scores(decoded, batch.ids)  # (B, L, T)
    allowed = feasible_along(batch.demands, batch.capacity, batch.lengths, path)
    scores = scores.masked_fill(~allowed, -torch.inf)
    own = _inside(batch.path_lengths - 1, path.shape[1])
    return Losses(problem_loss, _stream(scores[own], target[own]))


def _inside(lengths: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def _stream(scores: Tensor, target: Tensor) -> StreamLoss:
    loss_sum = F.cross_entropy(scores.float(), target, reduction="sum")
    correct = (scores.detach().argmax(-1) == target).sum()
    return StreamLoss(loss_sum, correct, torch.tensor(len(target), device=target.device))
