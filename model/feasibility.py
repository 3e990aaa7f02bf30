"""Feasibility mask M (Eq. H): the nodes that may follow each token of a path, computed on the device.

A customer may be visited once, and only if its demand fits the capacity left on the current route. The depot
may follow any node but itself. Symbols in shapes: B instances, T = n + 1 nodes of an instance with the depot
at position 0, L tokens of a path.
"""

from __future__ import annotations

import torch
from torch import Tensor


def feasible(demands: Tensor, remaining: Tensor, served: Tensor, at_depot: Tensor, inside: Tensor) -> Tensor:
    """Return which nodes of an instance may come next: the mask M of Eq. H, bool ``(..., T)``.

    ``remaining`` ``(...)`` is the capacity left on the current route, ``at_depot`` ``(...)`` whether the last
    node was the depot; ``inside`` ``(..., T)`` is False at padding. The depot's entry of ``served``
    ``(..., T)`` is ignored.
    """
    allowed = inside & ~served & (demands <= remaining[..., None])
    depot = ~at_depot
    return torch.cat([depot[..., None], allowed[..., 1:]], dim=-1)


def feasible_along(demands: Tensor, capacity: Tensor, lengths: Tensor, path: Tensor) -> Tensor:
    """Return which nodes may follow each token of ``path``, bool ``(B, L, T)``."""
    steps = torch.arange(path.shape[1], device=path.device)
    when = torch.full_like(demands, path.shape[1], dtype=torch.int64)  # a node is served, never yet
    when.scatter_(1, path, steps.expand_as(path))
    served = when[:, None, :] <= steps[:, None]  # (B, L, T)
    load, _ = loads(demands, path)
    inside = torch.arange(demands.shape[1], device=path.device) < lengths[:, None]
    return feasible(demands[:, None, :], capacity[:, None] - load, served, path == 0, inside[:, None, :])


def loads(demands: Tensor, path: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the vehicle has delivered on its route and in all, after each token, ``(B, L)`` each."""
    served = demands.gather(1, path).cumsum(1)
    at_depot = torch.where(path == 0, served, torch.zeros_like(served))
    return served - at_depot.cummax(1).values, served
