"""The city on the device: its table, the nine features of a token (Sec. 4.2) and the costs of paths.

A batch carries node numbers, demands and capacities; the features (x, y, d, t, kappa, gamma, omega, c, a) are
from the city's table. Symbols in shapes: B instances, T = n + 1 nodes of an instance with the depot at
position 0, L tokens of a solution's path, F features: the nine and the travel costs to landmarks, if any.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mcvrp.model.city import DEPOT, City, dearest_leg
from mcvrp.model.feasibility import loads

FEATURES = 9
_C, _A = 7, 8  # positions of load and served demand among the features


@dataclass(frozen=True)
class CityTable:
    """Per-node inputs of the features, float32, in the model's frame."""

    delta: Tensor  # (m + 1, 2), offset from the depot
    depot: Tensor  # (2,)
    kappa: Tensor  # (m + 1,), distance to the depot over `City.max_radius`
    landmarks: Tensor  # (m + 1, F - 9), `City.landmark_costs`

    @classmethod
    def of(cls, city: City, device: torch.device | str = "cpu", *, landmarks: int = 0) -> CityTable:
        """Return the table of ``city`` on ``device``; ``landmarks`` is the network's number of them."""
        xy = city.unit_xy
        delta = xy - xy[DEPOT]
        distance = np.hypot(delta[:, 0], delta[:, 1])
        largest = city.max_radius or 1.0  # every customer at the depot: all distances are 0
        columns = (delta, xy[DEPOT], distance / largest, city.landmark_costs(landmarks))
        return cls(*(torch.tensor(column, dtype=torch.float32).to(device) for column in columns))


@dataclass(frozen=True)
class TravelCosts:
    """Costs of paths through a city: straight lines, or those of its matrix."""

    xy: Tensor | None  # float32 (m + 1, 2), in the unit square
    matrix: Tensor | None  # (m + 1, m + 1), from row to column, in the city's unit; float32 on a GPU
    unit: float  # factor from these costs to the city's unit

    @classmethod
    def of(cls, city: City, table: CityTable) -> TravelCosts:
        """Return the costs of ``city``, scaled to its unit square, on the device of ``table``."""
        if city.matrix is None:
            return cls(table.depot + table.delta, None, city.scale)
        unit, device = dearest_leg(city.matrix) or 1.0, table.delta.device
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # it cannot be written, and is not
            matrix = torch.from_numpy(city.matrix)  # not copied: processes of a machine share it
        return cls(None, matrix if device.type == "cpu" else matrix.to(device, torch.float32), unit)

    def __call__(self, ids: Tensor, path: Tensor) -> Tensor:
        """Return the cost of each of ``path``, positions ``(B, S, L)`` in ``ids`` ``(B, T)``: ``(B, S)``."""
        nodes = ids[:, None].expand(-1, path.shape[1], -1).gather(2, path)  # (B, S, L)
        if self.xy is not None:
            xy = self.xy[nodes]  # (B, S, L, 2)
            return (xy[:, :, 1:] - xy[:, :, :-1]).norm(dim=-1).sum(-1)
        assert self.matrix is not None
        legs = self.matrix[nodes[..., :-1], nodes[..., 1:]] / self.unit
        return legs.masked_fill(nodes[..., :-1] == nodes[..., 1:], 0).sum(-1).float()  # padding stays


@dataclass(frozen=True)
class Batch:
    """Instances of a batch and, for training, their solutions; padded to the longest with 0, all int64."""

    ids: Tensor  # (B, T), node numbers in the city; position 0 is the depot
    demands: Tensor  # (B, T), 0 at the depot; float32 sums would be inexact beyond 2**24
    capacity: Tensor  # (B,)
    lengths: Tensor  # (B,), nodes of each instance, n + 1
    path: Tensor  # (B, L), solutions as positions into the instance: 0, route, 0, ..., 0
    path_lengths: Tensor  # (B,), tokens of each path, both end depots included
    angle: Tensor | None = None  # float32 (B,), rotation about the depot in radians
    padded: bool = True  # whether an instance is smaller than T - 1, so that its padding has to be masked
    by_angle: bool = True  # whether routes are sorted by angle, an order that a rotation rolls

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

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {k: change(v) for k, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **changed)


def rolled_path(table: CityTable, ids: Tensor, path: Tensor, path_lengths: Tensor, angle: Tensor) -> Tensor:
    """Return ``path`` ``(B, L)`` with its routes in the order of the frame rotated by ``angle`` ``(B,)``.

    Routes are stored by the angle of their centroid in [0, 2 pi). A rotation moves the start of
    the plane's angles, so the list of routes is rolled to begin with the smallest angle in the rotated
    frame. The other arguments are as in `Batch`.
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
    """Return the features of problem tokens, ``(B, T, F)``; c = a = 0.

    The city is turned about the depot by ``angle`` ``(B,)``, counter-clockwise, and not rescaled.
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
    return torch.cat([table.depot + delta, scalars, direction, rest, table.landmarks[ids]], dim=-1)


def solution_features(problem: Tensor, demands: Tensor, capacity: Tensor, path: Tensor) -> Tensor:
    """Return the features of solution tokens, ``(B, L, F)``.

    They are the node's problem features with c = load of the current route after the node
    over the capacity, and a = demand served so far, the node included, over the total.
    """
    load, served = loads(demands, path)
    nodes = problem.gather(1, path[..., None].expand(-1, -1, problem.shape[2]))
    return with_loads(nodes, load / capacity[:, None], served / demands.sum(1, keepdim=True))


def with_loads(nodes: Tensor, load_share: Tensor, served_share: Tensor) -> Tensor:
    """Return problem features ``(..., F)`` with c and a set, the token of one decoding step."""
    shares = load_share[..., None], served_share[..., None]
    return torch.cat([nodes[..., :_C], *shares, nodes[..., FEATURES:]], dim=-1)
