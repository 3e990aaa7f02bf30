"""The city on the device: its table, the nine features of a token (Sec. 4.2) and the costs of paths.

A batch carries node numbers, demands and capacities only. Coordinates, rotation and the
features (x, y, d, t, kappa, gamma, omega, c, a) come from the city's table, which lives on
the device. Symbols in shapes: B instances, T = n + 1 nodes of an instance with the depot at
position 0, L tokens of a solution's path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mcvrp.model.city import DEPOT, City
from mcvrp.model.feasibility import loads

FEATURES = 9
_C, _A = 7, 8  # positions of load and served demand among the features


@dataclass(frozen=True)
class CityTable:
    """Per-node inputs of the features, one row per node.

    ``delta`` float32 ``(m + 1, 2)`` is each node's offset from the depot in the model's
    frame, ``depot`` ``(2,)`` the depot itself, ``kappa`` ``(m + 1,)`` the distance to the
    depot over the largest of the city (of the oldest that it extends: `model.problem.City.max_radius`).
    """

    delta: Tensor
    depot: Tensor
    kappa: Tensor

    @classmethod
    def of(cls, city: City, device: torch.device | str = "cpu") -> CityTable:
        """Return the table of ``city`` on ``device``."""
        xy = city.unit_xy
        delta = xy - xy[DEPOT]
        distance = np.hypot(delta[:, 0], delta[:, 1])
        largest = city.max_radius or 1.0  # every customer at the depot: all distances are 0
        return cls(
            *(torch.tensor(a, dtype=torch.float32) for a in (delta, xy[DEPOT], distance / largest))
        ).to(device)

    def to(self, device: torch.device | str) -> CityTable:
        """Return the table on ``device``."""
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True)
class TravelCosts:
    """Costs of paths through a city.

    Parameters
    ----------
    xy
        Coordinates of the nodes in the unit square, float32 ``(m + 1, 2)``; None if there is a matrix.
    matrix
        Cost from node to node, float32 ``(m + 1, m + 1)``; None if costs are straight lines.
    unit
        Factor from these costs to the city's unit.
    """

    xy: Tensor | None
    matrix: Tensor | None
    unit: float

    @classmethod
    def of(cls, city: City, table: CityTable) -> TravelCosts:
        """Return the costs of ``city``, scaled to its unit square, on the device of ``table``."""
        if city.matrix is None:
            return cls(table.depot + table.delta, None, city.scale)
        unit = float(city.matrix.max()) or 1.0
        matrix = torch.tensor(city.matrix / unit, dtype=torch.float32, device=table.delta.device)
        return cls(None, matrix, unit)

    def __call__(self, ids: Tensor, path: Tensor) -> Tensor:
        """Return the cost of each of ``path``, positions ``(B, S, L)`` in ``ids`` ``(B, T)``: ``(B, S)``."""
        nodes = ids[:, None].expand(-1, path.shape[1], -1).gather(2, path)  # (B, S, L)
        if self.xy is not None:
            xy = self.xy[nodes]  # (B, S, L, 2)
            return (xy[:, :, 1:] - xy[:, :, :-1]).norm(dim=-1).sum(-1)
        assert self.matrix is not None
        legs = self.matrix[nodes[..., :-1], nodes[..., 1:]]
        return legs.masked_fill(nodes[..., :-1] == nodes[..., 1:], 0).sum(-1)  # padding stays


@dataclass(frozen=True)
class Batch:
    """Instances of a batch and, for training, their solutions; padded to the longest.

    Parameters
    ----------
    ids
        Node numbers in the city, int64 ``(B, T)``; position 0 is the depot, padding is 0.
    demands
        Demands in units, int64 ``(B, T)``; 0 at the depot and at padding. float32 sums would be inexact
        beyond 2**24.
    capacity
        int64 ``(B,)``.
    lengths
        Nodes of each instance, n + 1, int64 ``(B,)``.
    path
        Solutions as positions into the instance, int64 ``(B, L)``: 0, route, 0, ..., 0, then
        padding with 0.
    path_lengths
        Tokens of each path, both end depots included, int64 ``(B,)``.
    angle
        Rotation about the depot in radians, float32 ``(B,)``; None: no rotation.
    padded
        Whether an instance is smaller than T - 1, so that its padding has to be masked.
    by_angle
        Whether routes are sorted by angle, an order that a rotation rolls.
    """

    ids: Tensor
    demands: Tensor
    capacity: Tensor
    lengths: Tensor
    path: Tensor
    path_lengths: Tensor
    angle: Tensor | None = None
    padded: bool = True
    by_angle: bool = True

    @property
    def key_lengths(self) -> Tensor | None:
        """Lengths for the padding mask of attention; None if no instance is padded."""
        return self.lengths if self.padded else None

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on ``device``."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Batch:
        """Return the batch in page-locked memory, from which a GPU copies while it computes."""
        return self._each(Tensor.pin_memory)

    def first(self, rows: int) -> Batch:
        """Return the first ``rows`` samples with the padding of the whole batch."""
        return self._each(lambda tensor: tensor[:rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {k: change(v) for k, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **changed)


def rolled_path(table: CityTable, ids: Tensor, path: Tensor, path_lengths: Tensor, angle: Tensor) -> Tensor:
    """Return ``path`` ``(B, L)`` with its routes in the order of the frame rotated by ``angle`` ``(B,)``.

    Routes are stored by the angle of their centroid in [0, 2 pi). A rotation moves the start of
    the plane's angles, so the list of routes is rolled to begin with the smallest angle in the rotated
    frame. ``ids``, ``path`` and ``path_lengths`` are as in
    `Batch`.
    """
    columns = torch.arange(path.shape[1], device=path.device)
    ends = path_lengths[:, None] - 1  # position of the last depot of each path
    at_depot = path == 0
    # The depot has no offset: over a route, the running sum grows by that route's.
    sums = table.delta[ids.gather(1, path)].double().cumsum(1)  # (B, L, 2)
    later = torch.where(at_depot, columns, path.shape[1] - 1).flip(1).cummin(1).values.flip(1)
    following = torch.cat([later[:, 1:], later[:, -1:]], dim=1)  # the next depot after each token
    route = sums.gather(1, following[..., None].expand_as(sums)) - sums  # (B, L, 2)
    seen = (torch.atan2(route[..., 1], route[..., 0]) + angle[:, None]).remainder(2 * torch.pi)
    first = seen.masked_fill(~at_depot | (columns >= ends), torch.inf).argmin(1, keepdim=True)
    return path.gather(1, torch.where(columns < ends, (columns + first) % ends, columns))


def problem_features(
    table: CityTable, ids: Tensor, demands: Tensor, capacity: Tensor, angle: Tensor | None = None
) -> Tensor:
    """Return the features of problem tokens, ``(B, T, 9)``; c = a = 0.

    A rotation turns the city about the depot by ``angle`` ``(B,)``, counter-clockwise;
    coordinates are not rescaled afterwards.
    """
    delta = table.delta[ids]  # (B, T, 2)
    if angle is not None:
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]  # (B, 1)
        dx, dy = delta.unbind(-1)
        delta = torch.stack([dx * cos - dy * sin, dx * sin + dy * cos], dim=-1)
    norm = delta.norm(dim=-1, keepdim=True)
    direction = torch.where(norm > 0, delta / norm.clamp_min(1e-12), torch.zeros_like(delta))
    is_depot = (ids == DEPOT).to(delta.dtype)
    zeros = torch.zeros_like(is_depot)
    scalars = torch.stack([demands / capacity[:, None], is_depot, table.kappa[ids]], dim=-1)
    rest = torch.stack([zeros, zeros], dim=-1)
    return torch.cat([table.depot + delta, scalars, direction, rest], dim=-1)


def solution_features(problem: Tensor, demands: Tensor, capacity: Tensor, path: Tensor) -> Tensor:
    """Return the features of solution tokens, ``(B, L, 9)``.

    They are the node's problem features with c = load of the current route after the node
    over the capacity, and a = demand served so far, the node included, over the total.
    """
    load, served = loads(demands, path)
    nodes = problem[..., :_C].gather(1, path[..., None].expand(-1, -1, _C))
    total = demands.sum(1, keepdim=True)
    return torch.cat([nodes, (load / capacity[:, None])[..., None], (served / total)[..., None]], dim=-1)


def with_loads(nodes: Tensor, load_share: Tensor, served_share: Tensor) -> Tensor:
    """Return problem features ``(..., 9)`` with c and a set, the token of one decoding step."""
    return torch.cat([nodes[..., :_C], load_share[..., None], served_share[..., None]], dim=-1)
