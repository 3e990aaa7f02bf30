"""Autoregressive decoding of solutions under the feasibility mask (Sec. 4.4).

Instances of any sizes and capacities are decoded together. The problem is encoded once per instance and
rotation (once per batch if memory divides its samples among several); samples that share both share its
keys. Randomness is a pure function of (seed, instance, sample): neither the other instances of a batch nor
the number of samples changes a sample (up to the last bits of the network's arithmetic).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcvrp.model.errors import McvrpError
from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp
from mcvrp.model.partial_paths import Group, Paths
from mcvrp.model.problem import DEPOT, City, Instance, Solution, exact_sum, require_instances
from mcvrp.model.random import philox_key, philox_rows, philox_uniforms
from mcvrp.model.strategies import Beam, Greedy, Nucleus, Strategy

__all__ = ["Beam", "Decoded", "Greedy", "Nucleus", "Strategy", "decode", "paths_at_once"]

_SHARE = 0.5  # of the free memory, for keys and values
_CPU_BYTES = 4 << 30  # upper limit of the same on a CPU
# Larger batches are no faster. On a CPU they are small enough for processes to share the batches of a small
# set; the batches do not depend on the number of processes.
_CPU_PATHS, _GPU_PATHS = 128, 32_768
_COPIES = 1.5  # memory of a batch over its keys and values: copies of a layer, scores

Work = Callable[[Any, Any], Any]  # of a context and a task
# Applies the work to many tasks of one context and returns the results in order, maybe in several processes.
Map = Callable[[Work, tuple[Any, ...], Sequence[Any]], Iterable[Any]]


def map_here(work: Work, context: tuple[Any, ...], tasks: Sequence[Any]) -> Iterator[Any]:
    """Yield ``work(context, task)`` for each of ``tasks``, in this process."""
    return (work(context, task) for task in tasks)


@dataclass(frozen=True, eq=False)
class Decoded:
    """The samples of one instance.

    ``paths`` are sequences 0, route, 0, ..., 0 in the city's node numbers, padded with 0,
    int32 ``(samples, L)``; ``costs`` are in the city's unit, float64 ``(samples,)``.
    """

    paths: NDArray[np.int32]
    costs: NDArray[np.float64]

    @classmethod
    def of(cls, city: City, paths: NDArray[np.int32]) -> Decoded:
        """Return ``paths``, ``(samples, L)``, trimmed to the longest, and their costs."""
        used = int(np.flatnonzero(paths.any(axis=0))[-1]) + 2  # the last customer, then the depot
        paths = paths[:, :used]
        legs = city.legs(paths)
        legs[(paths[:, :-1] == DEPOT) & (paths[:, 1:] == DEPOT)] = 0.0  # padding stays at the depot
        return cls(paths, np.array([exact_sum(row) for row in legs]))

    def solution(self, sample: int) -> Solution:
        """Return one sample as a solution, routes in the order of decoding."""
        return Solution.from_path(self.paths[sample].tolist())

    @property
    def best(self) -> Solution:
        """The cheapest sample, the first of those of equal cost."""
        return self.solution(int(np.argmin(self.costs)))


def decode(
    model: FmMcvrp,
    city: City,
    instances: Sequence[Instance],
    *,
    strategy: Strategy,
    samples: int | None = None,
    first: int = 0,
    rotations: int = 1,
    seed: int = 0,
    max_batch: int | None = None,
    table: CityTable | None = None,
    mapped: Map = map_here,
) -> list[Decoded]:
    """Return ``samples`` decoded solutions of each instance, feasible by construction.

    By default all paths of a beam, otherwise one. Those of a beam are the most probable ones in descending
    order, padded with the most probable one.

    Parameters
    ----------
    model
        Network in evaluation mode, on the device and in the precision of decoding.
    city
        The city that the model was trained on, or one that extends it.
    first
        Number of the first sample: 10 samples, then 90 from the 10th on, equal 100 at once.
    rotations
        Number of rotations of the city (Sec. 4.4): sample i takes rotation i mod ``rotations`` and shares
        encoding and keys with the other samples of that rotation. Rotation 0 is the identity, the others
        have random angles. With as many rotations as samples, each sample has its own, as in the paper.
    max_batch
        Maximum number of paths decoded at once; default: what fits in memory.
    table
        Table of ``city`` on the model's device; made if None.
    mapped
        Map that runs the batches, which do not depend on it.

    Raises
    ------
    McvrpError
        If the model was trained on another city or has fewer classes than the city has nodes, an instance
        belongs to another city or has unknown customers, or ``samples`` exceeds the number of answers of the
        strategy.
    """
    if not (model.city_id is None or city.accepts(model.city_id)):
        own = f"{model.city!r} ({model.city_id})" if model.city else model.city_id
        raise McvrpError(f"the model was trained on city {own}, not on {city.city_id}: decode with its city")
    samples = strategy.width if samples is None else samples
    _check(model, city, instances, strategy, first, samples, rotations, max_batch)
    if not instances:
        return []
    table = model.table(city) if table is None else table
    share = -(-samples // rotations)
    if max_batch is None:
        max_batch = paths_at_once(model, max(instance.n for instance in instances), share)
    wanted = range(first, first + samples)
    batches = list(_batches(instances, wanted, rotations, max_batch, strategy.width))
    batches.reverse()  # the longest first, so that processes end at about the same time
    pieces: list[list[tuple[range, NDArray[np.int32]]]] = [[] for _ in instances]
    # only competing paths need the city, whose matrix may be large
    context = (model, table, city if strategy.width > 1 else None, strategy, rotations, seed)
    for jobs, of_jobs in zip(batches, mapped(_decode_batch, context, batches), strict=True):
        for job, paths in zip(jobs, of_jobs, strict=True):
            pieces[job.index].append((job.samples, paths[: len(job.samples)]))
    return [_finish(city, first, parts) for parts in pieces]


def paths_at_once(model: FmMcvrp, n: int, share: int) -> int:
    """Return the number of paths of ``n`` customers that fit in memory, ``share`` of them on shared keys.

    Counts keys and values of paths of maximum length, in half of the free memory.
    """
    weight, config = model.output.weight, model.config
    tokens = 2 * n + (n + 1) / share  # a path's own keys, and its share of the group's
    path = 2 * config.decoder_layers * config.dim * tokens * weight.element_size() * _COPIES
    if weight.device.type == "cpu":
        return max(
            1, min(int(min(_CPU_BYTES, psutil.virtual_memory().available * _SHARE) / path), _CPU_PATHS)
        )
    free = torch.cuda.mem_get_info(weight.device)[0] + torch.cuda.memory_reserved(weight.device)
    free -= torch.cuda.memory_allocated(weight.device)  # PyTorch's unused reserve is free
    return max(1, min(int(free * _SHARE / path), _GPU_PATHS))


@dataclass(frozen=True)
class _Job:
    """Samples of one rotation of the instance number ``index``."""

    index: int
    instance: Instance
    samples: range


def _batches(
    instances: Sequence[Instance], samples: range, rotations: int, max_batch: int, width: int
) -> Iterator[list[_Job]]:
    """Yield batches: jobs with the same number of paths and similar sizes, with little padding."""
    jobs = [
        _Job(i, instance, of_rotation[part])
        for i, instance in enumerate(instances)
        for of_rotation in (samples[r::rotations] for r in range(min(rotations, len(samples))))
        for part in _slices(len(of_rotation), max_batch if width == 1 else len(of_rotation))
    ]
    jobs.sort(key=lambda job: (len(job.samples), job.instance.n))
    for count, alike in itertools.groupby(jobs, key=lambda job: len(job.samples)):
        rest = list(alike)
        yield from (rest[part] for part in _slices(len(rest), max_batch // (count if width == 1 else width)))


def _slices(count: int, most: int) -> Iterator[slice]:
    most = max(1, most)
    return (slice(start, start + most) for start in range(0, count, most))


def _group(seed: int, instance: Instance, samples: range, rotations: int, width: int) -> Group:
    """Return the group of ``samples``; a beam has ``width`` paths, whatever the number of samples."""
    key = philox_key("decoding", str(seed), instance.city_id, instance.orders_hash)
    rotation = samples.start % rotations
    # Word 0 of sample r's stream is the angle of rotation r, word t + 1 draws the node after token t.
    angle = float(philox_uniforms(key, (rotation, 0), 1)[0]) * 2 * np.pi if rotation else 0.0
    streams = samples if width == 1 else range(rotation, rotation + width * rotations, rotations)
    uniforms = philox_rows(key, [(sample, 0) for sample in streams], 2 * instance.n + 1)
    return Group(instance, angle, uniforms[:, 1:])


def _decode_batch(
    context: tuple[FmMcvrp, CityTable, City | None, Strategy, int, int], jobs: list[_Job]
) -> list[NDArray[np.int32]]:
    """Return each job's paths as the city's node numbers, padded with 0, ``(S, L)``."""
    model, table, city, strategy, rotations, seed = context
    groups = [_group(seed, job.instance, job.samples, rotations, strategy.width) for job in jobs]
    with torch.inference_mode():
        rolled = rollout(model, table, groups, strategy, _legs(city, groups) if city else None)
    of_jobs = zip(jobs, rolled.cpu().numpy(), strict=True)
    return [job.instance.nodes[positions].astype(np.int32) for job, positions in of_jobs]


def _legs(city: City, groups: Sequence[Group]) -> NDArray[np.float64]:
    """Return the cost from node to node of each group's instance, padded with 0, ``(G, T, T)``."""
    tokens = max(group.instance.n for group in groups) + 1
    legs = np.zeros((len(groups), tokens, tokens))
    for row, group in enumerate(groups):
        nodes = group.instance.nodes
        legs[row, : len(nodes), : len(nodes)] = city.costs(nodes)
    legs[:, DEPOT, DEPOT] = 0.0  # ended paths stay at the depot
    return legs


def rollout(
    model: FmMcvrp,
    table: CityTable,
    groups: Sequence[Group],
    strategy: Strategy,
    legs: NDArray[np.float64] | None = None,
) -> Tensor:
    """Return the paths of ``groups`` as positions in their instances, padded with 0, int64 ``(G, S, L)``.

    Every group has S streams of random numbers. With ``legs``, the costs from node to node ``(G, T, T)``, a
    path is dropped if its group has a cheaper one in the same state.
    """
    state = Paths.start(model, table, groups, legs)
    count, size, steps = state.uniforms.shape  # G, S
    device = state.group.device
    positions = torch.zeros(count, size, steps + 1, dtype=torch.int64, device=device)
    totals = strategy.start(count, size, device)
    for t in range(steps):
        active = (state.group[:, None], state.sample)  # index of the active paths among all
        parent, node, kept = strategy.extend(state.scores(model, t), totals[active], state.uniforms[:, :, t])
        if parent is not None:
            state.follow(parent, t)
            positions[active] = positions[active].gather(1, parent[..., None].expand(-1, -1, steps + 1))
        state.advance(node)
        positions[*active, t + 1] = node
        if legs is not None:
            kept = kept.masked_fill(state.dominated(kept), -torch.inf)
        totals[active] = kept
        going = state.going
        if strategy.width > 1:  # an ended path of a beam competes until all paths of its group have ended
            going = (going & ~kept.isneginf()).any(1, keepdim=True).expand_as(node)
        if not state.retire(going):
            break
    return strategy.finish(positions, totals)[:, :, : t + 2]


def _finish(city: City, first: int, parts: list[tuple[range, NDArray[np.int32]]]) -> Decoded:
    longest = max(part.shape[1] for _, part in parts)
    paths = np.zeros((sum(len(samples) for samples, _ in parts), longest), dtype=np.int32)
    for samples, part in parts:
        paths[np.asarray(samples) - first, : part.shape[1]] = part
    return Decoded.of(city, paths)


def _check(
    model: FmMcvrp,
    city: City,
    instances: Sequence[Instance],
    strategy: Strategy,
    first: int,
    samples: int,
    rotations: int,
    max_batch: int | None,
) -> None:
    if model.config.classes < city.customers + 1:
        raise McvrpError(
            f"the model knows {model.config.classes} nodes, the city has {city.customers + 1}: "
            "decode with the city that it was trained on"
        )
    require_instances(city, instances)
    for name, value in (("sample", samples), ("rotation", rotations), ("path at once", max_batch)):
        if value is not None and value < 1:
            raise McvrpError(f"decoding needs at least one {name}, not {value}")
    share = -(-(first + samples) // rotations)
    if first < 0 or (first and strategy.width > 1):
        raise McvrpError(f"{strategy.description} cannot begin with sample {first}: start at 0")
    if strategy.answers is not None and share > strategy.answers:
        answers = "one answer" if strategy.answers == 1 else f"{strategy.answers} answers"
        raise McvrpError(
            f"{strategy.description} has {answers} a rotation, not {share}: ask for "
            f"{strategy.answers * rotations} at most, or use nucleus sampling"
        )
