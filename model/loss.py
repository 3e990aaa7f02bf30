"""Cross-entropy of problem and solution tokens (Eq. 3), as sums that can be added up.

A batch may be cut into micro-batches, ranks and accumulation steps: each adds its sums, and
dividing by the token counts of the global batch gives the loss of the whole.
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
    stream predicts the path's next node among those that mask M allows. Nothing here waits
    for the device.
    """
    problem = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
    padded = batch.lengths if batch.padded else None
    embeddings = model.encode(problem, padded)  # (B, T, D)
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
    """Return the masked scores of what may follow each token of ``path``, and what does follow.

    Parameters
    ----------
    batch
        The instances; its own solutions are not looked at.
    problem, embeddings
        Features ``(B, T, 9)`` of the instances, and what the encoder makes of them ``(B, T, D)``.
    path, path_lengths
        int64 ``(B * S, L)`` and ``(B * S,)``: S paths of each instance, one after the other, as in `Batch`.

    Returns
    -------
    tuple
        Scores ``(B * S, L - 1, T)`` and targets int64 ``(B * S, L - 1)``, `IGNORED` at padding.
    """
    samples = len(path) // len(batch.ids)
    lengths = batch.lengths if batch.padded else None
    path, target = path[:, :-1], path[:, 1:]
    demands, capacity, nodes, each_problem = (
        tensor if samples == 1 else tensor.repeat_interleave(samples, 0)
        for tensor in (batch.demands, batch.capacity, batch.lengths, problem)
    )
    solution = solution_features(each_problem, demands, capacity, path)
    decoded = model.decode(solution, model.memory(embeddings, lengths), samples)  # (B * S, L, D)
    grouped = decoded.reshape(len(batch.ids), -1, decoded.shape[2])  # (B, S * L, D)
    weights = model.node_weights(batch.ids, embeddings)
    scores = (grouped @ weights.transpose(1, 2)).view(*path.shape, -1)  # (B * S, L, T)
    allowed = feasible_along(demands, capacity, nodes, path)
    own = _inside(path_lengths - 1, path.shape[1])  # (B * S, L)
    # A mask that leaves padding no choice would turn its gradient, which is 0, into NaN.
    scores = scores.masked_fill(own[..., None] & ~allowed, -torch.inf)
    return scores, target.masked_fill(~own, IGNORED)


def _inside(lengths: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=lengths.device) < lengths[:, None]
