"""Costs of paths on the device: straight lines, or the city's matrix, asymmetric too."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mcvrp.model.features import CityTable
from mcvrp.model.problem import City


@dataclass(frozen=True)
class TravelCosts:
    """Costs of paths through a city.

    Parameters
    ----------
    places
        Of each node in the unit square, float32 ``(m + 1, 2)``; None where there is a matrix.
    matrix
        Cost from node to node, float32 ``(m + 1, m + 1)``; None where costs are straight lines.
    unit
        What a cost of 1 here is in the city's own unit.
    """

    places: Tensor | None
    matrix: Tensor | None
    unit: float

    @classmethod
    def of(cls, city: City, table: CityTable) -> TravelCosts:
        """Return the costs of ``city`` at the size that its unit square has, on its table's device."""
        if city.matrix is None:
            return cls(table.depot + table.delta, None, city.scale)
        unit = float(city.matrix.max()) or 1.0
        matrix = torch.tensor(city.matrix / unit, dtype=torch.float32, device=table.delta.device)
        return cls(None, matrix, unit)

    def __call__(self, ids: Tensor, path: Tensor) -> Tensor:
        """Return the cost of each of ``path``, positions ``(B, S, L)`` in ``ids`` ``(B, T)``: ``(B, S)``."""
        nodes = ids[:, None].expand(-1, path.shape[1], -1).gather(2, path)  # (B, S, L)
        if self.places is not None:
            xy = self.places[nodes]  # (B, S, L, 2)
            return (xy[:, :, 1:] - xy[:, :, :-1]).norm(dim=-1).sum(-1)
        assert self.matrix is not None
        legs = self.matrix[nodes[..., :-1], nodes[..., 1:]]
        return legs.masked_fill(nodes[..., :-1] == nodes[..., 1:], 0).sum(-1)  # padding stays
