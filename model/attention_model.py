"""The attention model for the CVRP (Kool, van Hoof, Welling 2019): the network, rollouts, likelihoods.

A batch holds instances of one size. The encoder is a transformer with batch normalisation over the
depot and the customers; the decoder attends once from (graph, last node, remaining capacity)
to the nodes and scores them. Symbols in shapes: B instances, T = n + 1 nodes with the depot at
position 0, S paths of an instance, H heads, D dimensions. `model.reinforce` trains it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mcvrp.model.feasibility import feasible, feasible_along, loads
from mcvrp.model.features import CityTable
from mcvrp.model.instances import InstanceRows


@dataclass(frozen=True)
class AttentionConfig:
    """Dimensions of the network; default: those of its authors (their Sec. 5 and App. B)."""

    dim: int = 128
    heads: int = 8
    layers: int = 3
    ff: int = 512
    clip: float = 10.0  # scores are clip tanh(.)


@dataclass(frozen=True)
class Orders:
    """Instances of one size on the device."""

    ids: Tensor  # int64 (B, T)
    xy: Tensor  # float32 (B, T, 2), in the city's unit square
    demands: Tensor  # int64 (B, T), 0 at the depot
    capacity: Tensor  # int64 (B,)

    @classmethod
    def of(cls, table: CityTable, rows: InstanceRows) -> Orders:
        """Return the instances ``rows`` of the city ``table``, on the table's device."""
        device = table.depot.device
        ids, demands, capacity = (
            torch.from_numpy(a).to(device) for a in (rows.ids, rows.demands, rows.capacity)
        )
        return cls(ids, table.depot + table.delta[ids], demands, capacity)


@dataclass(frozen=True)
class Nodes:
    """Encoded nodes for decoding, computed once per instance."""

    queries: Tensor  # (B, T, D), the part of a query that depends on the last node and the graph
    keys: Tensor  # (B, H, D/H, T) of the glimpse
    values: Tensor  # (B, H, T, D/H) of the glimpse
    scorers: Tensor  # (B, D, T), keys of the single-headed attention times the projection of the glimpse


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual connection and batch normalization."""

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.projections = nn.Linear(config.dim, 3 * config.dim, bias=False)
        self.out = nn.Linear(config.dim, config.dim, bias=False)
        self.ff = nn.Sequential(nn.Linear(config.dim, config.ff), nn.ReLU(), nn.Linear(config.ff, config.dim))
        self.norms = nn.ModuleList(nn.BatchNorm1d(config.dim) for _ in range(2))

    def forward(self, h: Tensor) -> Tensor:
        """Return ``h`` ``(B, T, D)`` after this layer."""
        q, k, v = (_by_head(part, self.heads) for part in self.projections(h).chunk(3, dim=-1))
        attended = nn.functional.scaled_dot_product_attention(q, k, v)  # (B, H, T, D/H)
        h = self._normed(0, h + self.out(_joined(attended)))
        return self._normed(1, h + self.ff(h))

    def _normed(self, which: int, h: Tensor) -> Tensor:
        return self.norms[which](h.flatten(0, 1)).view(h.shape)


class AttentionModel(nn.Module):
    """Encoder and decoder, with PyTorch's initial weights, uniform in +-1/sqrt(inputs) as the authors'."""

    def __init__(self, config: AttentionConfig = AttentionConfig()) -> None:
        super().__init__()
        self.config, dim = config, config.dim
        self.depot = nn.Linear(2, dim)
        self.customer = nn.Linear(3, dim)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.graph = nn.Linear(dim, dim, bias=False)
        self.step = nn.Linear(dim + 1, dim, bias=False)  # last node, room
        self.nodes = nn.Linear(dim, 3 * dim, bias=False)  # keys, values, keys of the scores
        self.glimpse = nn.Linear(dim, dim, bias=False)

    @property
    def device(self) -> torch.device:
        """The device that the weights are on."""
        return self.depot.weight.device

    def encode(self, orders: Orders) -> Nodes:
        """Return the encoded nodes of ``orders``."""
        share = (orders.demands / orders.capacity[:, None])[..., None]
        customers = torch.cat([orders.xy, share], dim=-1)[:, 1:]
        h = torch.cat([self.depot(orders.xy[:, :1]), self.customer(customers)], dim=1)  # (B, T, D)
        for layer in self.layers:
            h = layer(h)
        keys, values, scorers = self.nodes(h).chunk(3, dim=-1)
        return Nodes(
            queries=h @ self.step.weight[:, :-1].T + self.graph(h.mean(1, keepdim=True)),
            keys=_by_head(keys, self.config.heads).transpose(2, 3).contiguous(),
            values=_by_head(values, self.config.heads).contiguous(),
            scorers=(scorers @ (self.glimpse.weight * self.config.dim**-0.5)).transpose(1, 2).contiguous(),
        )

    def scores(self, nodes: Nodes, last: Tensor, room: Tensor, allowed: Tensor) -> Tensor:
        """Return the scores of the next nodes, ``(B, S, T)``, minus infinity if masked.

        ``last`` and ``room`` ``(B, S)`` are position of the last node and remaining share of the capacity;
        the feasibility mask ``allowed`` ``(B, S, T)`` has at least one node each.
        """
        queries = nodes.queries.gather(1, last[..., None].expand(-1, -1, self.config.dim))
        queries = _by_head(queries + room[..., None] * self.step.weight[:, -1], self.config.heads)
        weights = queries @ nodes.keys * queries.shape[-1] ** -0.5  # (B, H, S, T)
        weights = weights.masked_fill(~allowed[:, None], -torch.inf).softmax(-1)
        glimpse = _joined(weights @ nodes.values)  # (B, S, D)
        scores = self.config.clip * (glimpse @ nodes.scorers).tanh()
        return scores.masked_fill(~allowed, -torch.inf)

    def log_likelihood(self, nodes: Nodes, orders: Orders, path: Tensor) -> Tensor:
        """Return the logarithm of the probability of each of ``path`` ``(B, S, L)``, ``(B, S)``.

        Computes all steps at once. Paths begin and end at the depot; padding is 0, with probability 1.
        """
        samples = path.shape[1]
        before = path[..., :-1].flatten(0, 1)  # (B S, L - 1)
        demands, capacity = (a.repeat_interleave(samples, 0) for a in (orders.demands, orders.capacity))
        lengths = torch.full_like(before[:, 0], demands.shape[1])
        allowed = feasible_along(demands, capacity, lengths, before)  # (B S, L - 1, T)
        allowed[..., 0] |= ~allowed.any(-1)  # ended: stay
        room = 1 - loads(demands, before)[0] / capacity[:, None]
        steps = (a.reshape(len(path), -1, *a.shape[2:]) for a in (before, room, allowed))
        certainty = self.scores(nodes, *steps).log_softmax(-1)  # (B, S (L - 1), T)
        chosen = certainty.gather(2, path[..., 1:].flatten(1)[..., None])
        return chosen.view(*path.shape[:2], -1).sum(-1)


@torch.no_grad()
def rollout(model: AttentionModel, nodes: Nodes, orders: Orders, uniforms: Tensor | None = None) -> Tensor:
    """Return paths through ``orders``, positions, int64 ``(B, S, L)``: 0, route, 0, ..., 0 and zeros.

    Number t of ``uniforms``, doubles in [0, 1) ``(B, S, 2n)``, draws the node after token t; None: greedy
    decoding, S = 1.
    """
    demands, count = orders.demands[:, None], orders.demands.shape[1] - 1
    shape = (len(orders.ids), 1 if uniforms is None else uniforms.shape[1])
    last = torch.zeros(shape, dtype=torch.int64, device=orders.ids.device)
    served = torch.zeros(*shape, count + 1, dtype=torch.bool, device=last.device)
    inside = torch.ones_like(served)
    left = torch.full_like(last, count)
    capacity = orders.capacity[:, None].expand(shape)
    remaining = capacity
    path = [last]
    for t in range(2 * count):  # at most one depot visit per customer
        allowed = feasible(demands, remaining, served, (last == 0) & (left > 0), inside)
        scores = model.scores(nodes, last, remaining / capacity, allowed)
        last = scores.argmax(-1) if uniforms is None else _draw(scores, allowed, uniforms[..., t])
        served.scatter_(2, last[..., None], True)
        demand = demands.expand_as(scores).gather(2, last[..., None])[..., 0]
        remaining = torch.where(last == 0, capacity, remaining - demand)
        left = left - (last != 0).long()
        path.append(last)
        # no earlier, as it synchronizes with the device
        if t >= count and bool(((left == 0) & (last == 0)).all()):
            break
    return torch.stack(path, dim=2)


def _draw(scores: Tensor, allowed: Tensor, uniforms: Tensor) -> Tensor:
    through = scores.double().softmax(-1).cumsum(-1)
    beyond = (through > uniforms[..., None] * through[..., -1:]) & allowed
    return beyond.to(torch.uint8).argmax(-1)  # the first; u < 1, so there is one


def _by_head(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)  # (B, H, S, D/H)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, S, D)
