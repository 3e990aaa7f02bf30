"""Cross-entropy of problem and solution tokens (Eq. 3), as sums over tokens.

Micro-batches, ranks and accumulation steps add their sums; divided by the token counts of the global
batch, they are its mean loss, however the batch is split.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mcvrp.model.feasibility import feasible_along
from mcvrp.model.features import Batch, CityTable, problem_features, rolled_path, solution_features
from mcvrp.model.linear_cross_entropy import linear_cross_entropy
from mcvrp.model.network import FmMcvrp

IGNORED = -100  # the target of padding


@dataclass(frozen=True)
class StreamLoss:
    """One stream's tokens: summed cross-entropy, correct predictions and count, scalar tensors."""

    loss_sum: Tensor
    correct: Tensor
    tokens: Tensor


@dataclass(frozen=True)
class Losses:
    """Both streams; ``solution`` is None if only the encoder is trained."""

    problem: StreamLoss
    solution: StreamLoss | None


def losses(model: FmMcvrp, table: CityTable, batch: Batch, train_decoder: bool = True) -> Losses:
    """Return the summed losses of ``batch`` over its non-padding tokens.

    The problem stream predicts the node of each problem token among all classes, the solution
    stream the next node of the path among those that mask M allows. Nothing here synchronizes
    with the device.
    """
    problem = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
    embeddings = model.encode(problem, batch.key_lengths)  # (B, T, D)
    own = _inside(batch.lengths, batch.ids.shape[1])  # (B, T)
    problem_sum, right = linear_cross_entropy(
        embeddings.flatten(0, 1), model.output.weight, batch.ids.flatten(), own.flatten()
    )
    problem_loss = StreamLoss(problem_sum, right, batch.lengths.sum())
    if not train_decoder:
        return Losses(problem_loss, None)
    path = batch.path
    if batch.angle is not None and batch.by_angle:
        path = rolled_path(table, batch.ids, path, batch.path_lengths, batch.angle)
    scores, target = next_nodes(model, batch, problem, embeddings, path, batch.path_lengths)
    solution_sum = F.cross_entropy(
        scores.flatten(0, 1).float(), target.flatten(), reduction="sum", ignore_index=IGNORED
    )
    right = (scores.detach().argmax(-1) == target).sum()
    return Losses(problem_loss, StreamLoss(solution_sum, right, (batch.path_lengths - 1).sum()))


def next_nodes(
    model: FmMcvrp,
    batch: Batch,
    problem: Tensor,
    embeddings: Tensor,
    path: Tensor,
    path_lengths: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the masked scores of the nodes that may follow each token of ``path``, and the targets.

    Scores are ``(B * S, L - 1, T)``, targets int64 ``(B * S, L - 1)``, `IGNORED` at padding.

    Parameters
    ----------
    batch
        The instances; its solutions are ignored.
    problem, embeddings
        Features ``(B, T, F)`` of the instances and their node embeddings ``(B, T, D)``.
    path, path_lengths
        int64 ``(B * S, L)`` and ``(B * S,)``: S consecutive paths per instance, as in `Batch`.
    """
    samples = len(path) // len(batch.ids)
    path, target = path[:, :-1], path[:, 1:]
    demands, capacity, nodes, each_problem = (
        tensor if samples == 1 else tensor.repeat_interleave(samples, 0)
        for tensor in (batch.demands, batch.capacity, batch.lengths, problem)
    )
    solution = solution_features(each_problem, demands, capacity, path)
    decoded = model.decode(solution, model.memory(embeddings, batch.key_lengths), samples)  # (B * S, L, D)
    grouped = decoded.reshape(len(batch.ids), -1, decoded.shape[2])  # (B, S * L, D)
    weights = model.node_weights(batch.ids, embeddings)
    scores = (grouped @ weights.transpose(1, 2)).view(*path.shape, -1)  # (B * S, L, T)
    allowed = feasible_along(demands, capacity, nodes, path)
    own = _inside(path_lengths - 1, path.shape[1])  # (B * S, L)
    # Padding with all nodes masked would turn its gradient, which is 0, into NaN.
    scores = scores.masked_fill(own[..., None] & ~allowed, -torch.inf)
    return scores, target.masked_fill(~own, IGNORED)


def _inside(lengths: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=lengths.device) < lengths[:, None]
