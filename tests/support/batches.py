"""Batches of the network's input, built the slow and obvious way: an oracle for those that read labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from mcvrp.model.features import Batch
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Instance, Solution
from tests.support.labels import sweep


def batch_of(pairs: list[tuple[Instance, Solution]], angle: float | None = None) -> Batch:
    """Return the padded batch of ``pairs``, built the slow and obvious way."""
    nodes = max(instance.n for instance, _ in pairs) + 1
    tokens = max(len(solution.path) for _, solution in pairs)
    ids, demands = (torch.zeros(len(pairs), nodes, dtype=torch.long) for _ in range(2))
    path = torch.zeros(len(pairs), tokens, dtype=torch.long)
    for row, (instance, solution) in enumerate(pairs):
        position = {int(node): k for k, node in enumerate(instance.nodes)}
        ids[row, : instance.n + 1] = torch.tensor(instance.nodes)
        demands[row, 1 : instance.n + 1] = torch.tensor(instance.demands.astype(np.int64))
        path[row, : len(solution.path)] = torch.tensor([position[int(node)] for node in solution.path])
    return Batch(
        ids,
        demands,
        torch.tensor([instance.capacity for instance, _ in pairs]),
        torch.tensor([instance.n + 1 for instance, _ in pairs]),
        path,
        torch.tensor([len(solution.path) for _, solution in pairs]),
        None if angle is None else torch.full((len(pairs),), angle),
    )


def sweep_batch(city: City, sizes: list[int], rotated: bool = False) -> Batch:
    """Return instances of ``sizes`` customers with sweep routes, turned by angles if ``rotated``."""
    stream = InstanceStream(city, 1, "train")
    instances = [stream(n, i) for i, n in enumerate(sizes)]
    batch = batch_of([(instance, sweep(city, instance)) for instance in instances])
    angle = torch.linspace(0.1, 6.0, len(sizes)) if rotated else None
    return replace(batch, angle=angle, padded=min(sizes) < max(sizes))
