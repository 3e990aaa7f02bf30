"""State of a batch of partial paths during decoding.

Contains the network's cache, the state of each vehicle and the feasibility mask. `model.strategies` chooses
the nodes, `model.decoding` the instances and samples of a batch. Ended paths leave the batch as soon as
enough have ended. Symbols in shapes: G groups, each an instance in one rotation, of S paths
that share its encoding and keys; T problem tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from mcvrp.model.feasibility import feasible
from mcvrp.model.features import Batch, CityTable, problem_features, with_loads
from mcvrp.model.network import Cache, FmMcvrp, Memory
from mcvrp.model.problem import DEPOT, Instance

_RETIRE = 0.75  # compact the batch once less than this share of its paths is active
_SPARE_ROUTES = 1.25  # initial room of the cache, in routes over the minimum


@dataclass(frozen=True, eq=False)
class Group:
    """An instance in one rotation, with the uniforms ``(S, 2 n)`` for its S paths."""

    instance: Instance
    angle: float
    uniforms: NDArray[np.float64]


def instances_of(groups: Sequence[Group], device: torch.device) -> Batch:
    """Return the instances of ``groups`` in their rotations on ``device``, a batch without solutions."""
    tokens = max(group.instance.n for group in groups) + 1
    ids = np.full((len(groups), tokens), DEPOT)
    demands = np.zeros((len(groups), tokens), dtype=np.int64)
    for row, group in enumerate(groups):
        n = group.instance.n
        ids[row, : n + 1] = group.instance.nodes
        demands[row, 1 : n + 1] = group.instance.demands
    lengths = torch.tensor([group.instance.n + 1 for group in groups], device=device)
    return Batch(
        ids=torch.from_numpy(ids).to(device),
        demands=torch.from_numpy(demands).to(device),
        capacity=torch.tensor([group.instance.capacity for group in groups], device=device),
        lengths=lengths,
        path=torch.zeros(len(groups), 1, dtype=torch.int64, device=device),
        path_lengths=torch.ones_like(lengths),
        angle=torch.tensor([group.angle for group in groups], dtype=torch.float32, device=device),
        padded=any(group.instance.n + 1 < tokens for group in groups),
    )


@dataclass
class Paths:
    """State of the active paths of a batch."""

    group: Tensor  # (G,) index of the group in the batch
    sample: Tensor  # (G, S) index of the path in the group
    features: Tensor  # (G, T, F) of the problem tokens
    columns: Tensor  # (G, D, T) output weights of the instance's nodes
    demands: Tensor  # (G, 1, T), int64 like capacity, total, load: sums of floats would be rounded
    capacity: Tensor  # (G, 1)
    total: Tensor  # (G, 1) demand of the instance
    inside: Tensor  # (G, 1, T) not padding
    uniforms: Tensor  # (G, S, steps)
    memory: Memory
    cache: Cache
    slot: Tensor  # (G, S) place of the path's keys among those of its group
    position: Tensor  # (G, S) the last node
    served: Tensor  # (G, S, T)
    load: Tensor  # (G, S) of the current route
    delivered: Tensor  # (G, S) in all
    legs: Tensor  # (G, T, T) cost from node to node; (G, 0, 0) if paths do not compete
    cost: Tensor  # (G, S) so far
    marks: Tensor  # (T + 2,) random integers, whose sums identify states

    @classmethod
    def start(
        cls,
        model: FmMcvrp,
        table: CityTable,
        groups: Sequence[Group],
        legs: NDArray[np.float64] | None = None,
    ) -> Paths:
        """Return the paths of ``groups``, all of the same S, at the depot; encodes the instances."""
        batch = instances_of(groups, table.delta.device)
        device, tokens, samples = table.delta.device, batch.ids.shape[1], len(groups[0].uniforms)
        uniforms = np.zeros((len(groups), samples, 2 * (tokens - 1)))
        for row, group in enumerate(groups):
            uniforms[row, :, : 2 * group.instance.n] = group.uniforms
        features = problem_features(table, batch.ids, batch.demands, batch.capacity, batch.angle)
        routes = int((batch.demands.sum(1) / batch.capacity).max() * _SPARE_ROUTES) + 2
        embeddings = model.encode(features, batch.key_lengths)
        memory = model.memory(embeddings, batch.key_lengths).contiguous()
        zeros = torch.zeros(len(groups), samples, dtype=torch.int64, device=device)
        return cls(
            group=torch.arange(len(groups), device=device),
            sample=torch.arange(samples, device=device).repeat(len(groups), 1),
            features=features,
            columns=model.node_weights(batch.ids, embeddings).transpose(1, 2),
            demands=batch.demands[:, None],
            capacity=batch.capacity[:, None],
            total=batch.demands.sum(1, keepdim=True),
            inside=(torch.arange(tokens, device=device) < batch.lengths[:, None])[:, None],
            uniforms=torch.from_numpy(uniforms).to(device),
            memory=memory,
            cache=model.new_cache(memory, len(groups) * samples, min(uniforms.shape[2], tokens + routes)),
            slot=torch.arange(samples, device=device).repeat(len(groups), 1),
            position=zeros,
            served=torch.zeros(*zeros.shape, tokens, dtype=torch.bool, device=device),
            load=zeros,
            delivered=zeros,
            legs=torch.from_numpy(np.zeros((len(groups), 0, 0)) if legs is None else legs).to(device),
            cost=zeros.double(),
            marks=torch.from_numpy(np.random.default_rng(0).integers(2**63, size=tokens + 2)).to(device),
        )

    @property
    def going(self) -> Tensor:
        """Mask of the paths that have not ended, bool ``(G, S)``."""
        return (self.delivered < self.total) | (self.position != DEPOT)

    def scores(self, model: FmMcvrp, t: int) -> Tensor:
        """Return the score of each node after token ``t``, minus infinity if masked.

        Float32 ``(G, S, T)``; all nodes of an ended path are masked. Caches the keys of token ``t``.
        """
        self._make_room(t)
        tokens = self.features.gather(1, self.position[..., None].expand(-1, -1, self.features.shape[2]))
        tokens = with_loads(tokens, self.load / self.capacity, self.delivered / self.total)
        at_slots = tokens.scatter(1, self.slot[..., None].expand_as(tokens), tokens)
        embeddings = model.step(at_slots, self.cache, t, self.memory)  # (G, S, D)
        embeddings = embeddings.gather(1, self.slot[..., None].expand_as(embeddings))
        room = self.capacity - self.load
        allowed = feasible(self.demands, room, self.served, self.position == DEPOT, self.inside)
        return (embeddings @ self.columns).float().masked_fill_(~allowed, -torch.inf)

    def advance(self, node: Tensor) -> None:
        """Append ``node`` ``(G, S)`` to the paths."""
        demand = self.demands.expand(-1, node.shape[1], -1).gather(2, node[..., None])[..., 0]
        if self.legs.numel():
            group = torch.arange(len(node), device=node.device)[:, None]
            self.cost = self.cost + self.legs[group, self.position, node]
        self.position = node
        self.load = torch.where(node == DEPOT, 0, self.load + demand)
        self.delivered = self.delivered + demand
        self.served.scatter_(2, node[..., None], True)

    def dominated(self, totals: Tensor) -> Tensor:
        """Mask of the paths that are not the cheapest of their group in their state, bool ``(G, S)``.

        The state consists of the customers served, the last node and the load, which determine the feasible
        continuations. The first of equal paths is kept, as are ended paths; paths with ``totals`` of minus
        infinity do not exist.
        """
        served = torch.where(self.served, self.marks[2:], 0).sum(-1)
        state = served + self.position * self.marks[0] + self.load * self.marks[1]
        alone = torch.arange(totals.shape[1], device=totals.device).expand_as(state)
        state = torch.where(self.going & ~totals.isneginf(), state, alone)
        order = self.cost.argsort(dim=1, stable=True)
        order = order.gather(1, state.gather(1, order).argsort(dim=1, stable=True))
        state = state.gather(1, order)
        again = torch.zeros_like(self.going)
        again[:, 1:] = state[:, 1:] == state[:, :-1]  # the first of a state is the cheapest
        return torch.zeros_like(again).scatter_(1, order, again)

    def follow(self, parent: Tensor, t: int) -> None:
        """Replace each path by a copy of its group's path ``parent`` ``(G, S)``, tokens 0 to ``t``.

        The first child of a path takes over its keys, the others get copies, in the slots of paths without
        children.
        """
        for name in ("position", "load", "delivered", "cost"):
            setattr(self, name, getattr(self, name).gather(1, parent))
        self.served = self.served.gather(1, parent[..., None].expand_as(self.served))
        self.slot = self.slot.gather(1, parent)
        siblings, order = self.slot.sort(dim=1, stable=True)
        again = torch.zeros_like(parent, dtype=torch.bool)
        again.scatter_(1, order[:, 1:], siblings[:, 1:] == siblings[:, :-1])
        free = torch.ones_like(again).scatter_(1, self.slot, False)  # in each group as many as copies
        (group, path), (_, slot) = again.nonzero(as_tuple=True), free.nonzero(as_tuple=True)
        first, source = group * parent.shape[1], self.slot[group, path]
        for stored in (tensor for layer in self.cache for tensor in layer):
            stored[first + slot, :, : t + 1] = stored[first + source, :, : t + 1]
        self.slot[group, path] = slot

    def retire(self, going: Tensor) -> bool:
        """Drop the paths outside ``going`` ``(G, S)`` if enough have ended; return whether any is left.

        Groups stay rectangular: each keeps as many paths as the largest, ended ones among them at the depot.
        """
        left = going.sum(1)  # (G,)
        most, groups = int(left.max()), int((left > 0).sum())
        if most * groups >= _RETIRE * going.numel() or most == 0:
            return most > 0
        rows = (left > 0).nonzero()[:, 0]
        kept = going[rows].to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        for name in ("sample", "slot", "position", "load", "delivered", "cost"):
            setattr(self, name, getattr(self, name)[rows[:, None], kept])
        self.served, self.uniforms = self.served[rows[:, None], kept], self.uniforms[rows[:, None], kept]
        for name in ("group", "features", "columns", "demands", "capacity", "total", "inside", "legs"):
            setattr(self, name, getattr(self, name)[rows])
        self.memory = self.memory.select(rows)
        slots = (rows[:, None] * going.shape[1] + self.slot).flatten()
        self._change_cache(lambda stored: stored[slots])
        self.slot = torch.arange(most, device=going.device).repeat(len(rows), 1)
        return True

    def _make_room(self, t: int) -> None:
        """Enlarge the cache by half if token ``t`` does not fit."""
        room = self.cache[0][0].shape[2]
        if t < room:
            return
        grown = min(self.uniforms.shape[2], room + room // 2 + 1)
        self._change_cache(lambda stored: F.pad(stored, (0, 0, 0, grown - room)))

    def _change_cache(self, change: Callable[[Tensor], Tensor]) -> None:
        """Replace the tensors of the cache one at a time, as two whole caches may not fit in memory."""
        for layer, (keys, values) in enumerate(self.cache):
            self.cache[layer] = change(keys), change(values)
