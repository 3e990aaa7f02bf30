"""Solutions from the network, token by token: greedy and nucleus sampling under the mask (Sec. 4.4).

Instances of any sizes and capacities are decoded together. The problem is encoded once for
an instance and rotation; the samples that share both share its keys. Randomness is a pure
function of (seed, instance, sample): what an instance is decoded with, and how many samples
are asked for, never changes a sample (up to the last bits of the network's arithmetic).

Symbols in shapes: G groups, each an instance in one rotation, of S samples; T problem
tokens; t tokens of the path so far.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from model.errors import McvrpError
from model.features import CityTable, feasible, problem_features, with_loads
from model.network import Cache, FmMcvrp, Memory
from model.problem import DEPOT, City, Instance, Solution, philox_key, philox_uniforms

_RETIRE = 0.75  # drop finished groups once fewer than this share of a batch is still going
_SPARE_ROUTES = 1.25  # routes over the fewest possible that the cache has room for at first


@dataclass(frozen=True)
class Greedy:
    """The most probable node at every step."""

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """Return the node chosen from ``scores`` ``(..., T)``, int64 ``(...)``."""
        return scores.argmax(-1)


@dataclass(frozen=True)
class Nucleus:
    """A draw from the smallest set of nodes that holds a share ``p`` of the probability.

    Raises
    ------
    McvrpError
        If ``p`` is not in (0, 1].
    """

    p: float = 0.9  # the paper names none

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise McvrpError(f"the share p of nucleus sampling must be in (0, 1], not {self.p}")

    def choose(self, scores: Tensor, uniforms: Tensor) -> Tensor:
        """Return the node that ``uniforms`` ``(...)`` in [0, 1) draw from ``scores``, int64 ``(...)``."""
        probability, node = scores.double().softmax(-1).sort(stable=True, dim=-1, descending=True)
        through = probability.cumsum(-1)
        kept = through - probability < self.p  # those before it hold less than p
        through = (probability * kept).cumsum(-1)
        drawn = (through <= uniforms[..., None] * through[..., -1:]).sum(-1, keepdim=True)
        last = kept.sum(-1, keepdim=True) - 1  # where rounding makes u times the whole the whole
        return node.gather(-1, drawn.minimum(last.clamp_min(0)))[..., 0]


Strategy = Greedy | Nucleus


@dataclass(frozen=True, eq=False)
class Decoded:
    """The samples of one instance.

    ``paths`` are sequences 0, route, 0, ..., 0 in the city's node numbers, padded with 0,
    int32 ``(samples, L)``; ``costs`` are in the city's unit, float64 ``(samples,)``.
    """

    paths: NDArray[np.int32]
    costs: NDArray[np.float64]

    def solution(self, sample: int) -> Solution:
        """Return one sample as a solution, routes in the order of decoding."""
        return Solution.from_path(self.paths[sample].tolist())

    @property
    def best(self) -> Solution:
        """The cheapest sample, the first of equals."""
        return self.solution(int(np.argmin(self.costs)))


def decode(
    model: FmMcvrp,
    city: City,
    instances: Sequence[Instance],
    *,
    strategy: Strategy,
    samples: int = 1,
    rotations: bool = False,
    seed: int = 0,
    max_batch: int = 256,
    table: CityTable | None = None,
) -> list[Decoded]:
    """Return ``samples`` decoded solutions of each instance, feasible by construction.

    Parameters
    ----------
    model
        In evaluation mode, on the device that decoding runs on.
    city
        The city that the model was trained on.
    rotations
        Whether samples after the first see the city turned by an angle of their own
        (Sec. 4.4); the first always sees it as it is.
    seed
        Names the random numbers.
    max_batch
        Paths decoded at once.
    table
        The city's table on the model's device, if there is one already.

    Raises
    ------
    McvrpError
        If the network has other classes than the city has nodes, an instance is another
        city's, or several samples are asked of the greedy strategy.
    """
    _check(model, city, instances, strategy, samples, max_batch)
    device = model.output.weight.device
    table = CityTable.of(city, device) if table is None else table
    order = sorted(range(len(instances)), key=lambda i: instances[i].n)  # alike sizes: little padding
    share = 1 if rotations else min(samples, max_batch)  # samples of a group
    jobs = [(first, i) for first in range(0, samples, share) for i in order]
    if rotations:
        jobs.sort(key=lambda job: instances[job[1]].n)
    pieces: list[list[tuple[int, NDArray[np.int32]]]] = [[] for _ in instances]
    with torch.inference_mode():
        while jobs:
            count = min(share, samples - jobs[0][0])
            batch = [job for job in jobs[: max(1, max_batch // count)] if job[0] + count <= samples]
            jobs = jobs[len(batch) :]
            groups = [_group(seed, instances[i], range(f, f + count), rotations) for f, i in batch]
            for (first, i), paths in zip(batch, _decode_batch(model, table, groups, strategy), strict=True):
                pieces[i].append((first, paths))
    return [_finish(city, instance, parts) for instance, parts in zip(instances, pieces, strict=True)]


@dataclass(frozen=True, eq=False)
class _Group:
    """An instance in one rotation, with the uniforms ``(S, 2 n)`` that its samples draw nodes with."""

    instance: Instance
    angle: float
    uniforms: NDArray[np.float64]


def _group(seed: int, instance: Instance, samples: range, rotations: bool) -> _Group:
    """Return the group of ``samples``; word 0 of a sample's stream turns it, word t + 1 follows token t."""
    digest = hashlib.sha256(instance.ids.astype("<u4").tobytes() + instance.demands.astype("<u2").tobytes())
    digest.update(str(instance.capacity).encode())
    key = philox_key("decoding", str(seed), instance.city_id, digest.hexdigest())
    uniforms = np.stack([philox_uniforms(key, (sample, 0), 2 * instance.n + 1) for sample in samples])
    turned = rotations and samples.start > 0
    return _Group(instance, float(uniforms[0, 0]) * 2 * np.pi if turned else 0.0, uniforms[:, 1:])


@dataclass
class _State:
    """A batch half-way: what its groups are, and where their samples stand."""

    rows: Tensor  # (G,) which group of the batch
    features: Tensor  # (G, T, 9) of the problem tokens
    columns: Tensor  # (G, D, T) of the output layer, at the instance's own nodes
    demands: Tensor  # (G, 1, T)
    capacity: Tensor  # (G, 1)
    total: Tensor  # (G, 1) demand of the instance
    inside: Tensor  # (G, 1, T) not padding
    uniforms: Tensor  # (G, S, steps)
    memory: Memory
    cache: Cache
    position: Tensor  # (G, S) the last node
    served: Tensor  # (G, S, T)
    load: Tensor  # (G, S) of the current route
    delivered: Tensor  # (G, S) in all

    def select(self, keep: Tensor) -> None:
        """Forget the groups that ``keep`` ``(G,)`` leaves out."""
        samples = keep.repeat_interleave(self.position.shape[1])
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value[keep])
        self.memory = self.memory.select(keep)
        self.cache = [(keys[samples], values[samples]) for keys, values in self.cache]

    def grow(self, most: int) -> None:
        """Make room in the cache for half as many tokens again, ``most`` in all."""
        room = self.cache[0][0].shape[2]
        pad = (0, 0, 0, min(most, room + room // 2 + 1) - room)
        self.cache = [(F.pad(keys, pad), F.pad(values, pad)) for keys, values in self.cache]


def _decode_batch(
    model: FmMcvrp, table: CityTable, groups: Sequence[_Group], strategy: Strategy
) -> list[NDArray[np.int32]]:
    """Return each group's paths as the city's node numbers, padded with 0, ``(S, L)``."""
    state = _start(model, table, groups)
    steps = state.uniforms.shape[2]
    paths = torch.zeros(*state.uniforms.shape[:2], steps + 1, dtype=torch.int64, device=state.rows.device)
    for t in range(steps):
        if t == state.cache[0][0].shape[2]:
            state.grow(steps)
        position = state.position  # (G, S)
        tokens = state.features.gather(1, position[..., None].expand(-1, -1, state.features.shape[2]))
        tokens = with_loads(tokens, state.load / state.capacity, state.delivered / state.total)
        embeddings = model.step(tokens, state.cache, t, state.memory)  # (G, S, D)
        allowed = feasible(
            state.demands, state.capacity - state.load, state.served, position == 0, state.inside
        )
        scores = (embeddings @ state.columns).masked_fill(~allowed, -torch.inf)  # (G, S, T)
        node = strategy.choose(scores, state.uniforms[:, :, t])
        node = torch.where(allowed.any(-1), node, 0)  # nothing left to do: stay at the depot
        paths[state.rows, :, t + 1] = node
        demand = state.demands.expand(-1, node.shape[1], -1).gather(2, node[..., None])[..., 0]
        state.position = node
        state.load = torch.where(node == 0, 0.0, state.load + demand)
        state.delivered = state.delivered + demand
        state.served.scatter_(2, node[..., None], True)
        going = ((state.delivered < state.total) | (node != 0)).any(1)  # (G,)
        left = int(going.sum())
        if left == 0:
            break
        if left < _RETIRE * len(going):
            state.select(going)
    done = paths[:, :, : t + 2].cpu().numpy()
    return [group.instance.nodes[path].astype(np.int32) for group, path in zip(groups, done, strict=True)]


def _start(model: FmMcvrp, table: CityTable, groups: Sequence[_Group]) -> _State:
    device = model.output.weight.device
    lengths = torch.tensor([group.instance.n + 1 for group in groups], device=device)
    tokens, samples = int(lengths.max()), len(groups[0].uniforms)
    ids = np.full((len(groups), tokens), DEPOT)
    demands = np.zeros((len(groups), tokens), dtype=np.float32)
    uniforms = np.zeros((len(groups), samples, 2 * (tokens - 1)))
    for row, group in enumerate(groups):
        n = group.instance.n
        ids[row, : n + 1] = group.instance.nodes
        demands[row, 1 : n + 1] = group.instance.demands
        uniforms[row, :, : 2 * n] = group.uniforms
    nodes, demand = torch.from_numpy(ids).to(device), torch.from_numpy(demands).to(device)
    capacity = torch.tensor([float(group.instance.capacity) for group in groups], device=device)
    angle = torch.tensor([group.angle for group in groups], dtype=torch.float32, device=device)
    features = problem_features(table, nodes, demand, capacity, angle)
    routes = int((demand.sum(1) / capacity).max() * _SPARE_ROUTES) + 2
    padded = None if bool((lengths == tokens).all()) else lengths
    none = torch.zeros(len(groups), samples, device=device)
    return _State(
        rows=torch.arange(len(groups), device=device),
        features=features,
        columns=model.output.weight[nodes].transpose(1, 2),
        demands=demand[:, None],
        capacity=capacity[:, None],
        total=demand.sum(1, keepdim=True),
        inside=(torch.arange(tokens, device=device) < lengths[:, None])[:, None],
        uniforms=torch.from_numpy(uniforms).to(device),
        memory=model.memory(model.encode(features, padded), padded),
        cache=model.new_cache(len(groups) * samples, min(uniforms.shape[2], tokens + routes)),
        position=torch.zeros_like(none, dtype=torch.int64),
        served=torch.zeros(*none.shape, tokens, dtype=torch.bool, device=device),
        load=none,
        delivered=none.clone(),
    )


def _finish(city: City, instance: Instance, parts: list[tuple[int, NDArray[np.int32]]]) -> Decoded:
    """Put an instance's samples in order, cut the padding that all share, and cost them."""
    ordered = [paths for _, paths in sorted(parts, key=lambda part: part[0])]
    longest = max(paths.shape[1] for paths in ordered)
    paths = np.concatenate([np.pad(p, ((0, 0), (0, longest - p.shape[1]))) for p in ordered])
    used = int(np.flatnonzero(paths.any(axis=0))[-1]) + 2  # the last customer, then the depot
    paths = paths[:, :used]
    nodes = instance.nodes
    leg = city.costs(nodes)
    leg[DEPOT, DEPOT] = 0.0  # padding stays at the depot
    at = np.searchsorted(nodes, paths)
    running = leg[at[:, :-1], at[:, 1:]].cumsum(axis=1)  # in order: padding adds nothing, not even rounding
    return Decoded(paths, running[:, -1])


def _check(
    model: FmMcvrp,
    city: City,
    instances: Sequence[Instance],
    strategy: Strategy,
    samples: int,
    max_batch: int,
) -> None:
    if model.config.classes != city.customers + 1:
        raise McvrpError(
            f"the model knows {model.config.classes} nodes, the city has {city.customers + 1}: "
            "decode with the city that it was trained on"
        )
    foreign = next((i for i in instances if i.city_id != city.city_id), None)
    if foreign is not None:
        raise McvrpError(f"an instance belongs to city {foreign.city_id}, not to city {city.city_id}")
    if samples < 1 or max_batch < 1:
        raise McvrpError(f"decoding needs at least one sample and one path, not {samples} and {max_batch}")
    if samples > 1 and isinstance(strategy, Greedy):
        raise McvrpError(f"greedy decoding has one answer, not {samples}: use nucleus sampling")
