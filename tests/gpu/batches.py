"""Batches of labelled instances made on the spot; torch, numpy and `model` are all they need."""

from __future__ import annotations

import numpy as np
import torch

from mcvrp.model.features import Batch
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City
from tests.support.sweep import sweep


def sweep_batch(city: City, sizes: list[int], rotated: bool = False) -> Batch:
    """Return instances of ``sizes`` customers with sweep routes, each turned by an angle if asked."""
    stream = InstanceStream(city, 1, "train")
    instances = [stream(n, i) for i, n in enumerate(sizes)]
    paths = [sweep(city, instance).path for instance in instances]
    count, nodes, tokens = len(sizes), max(sizes) + 1, max(map(len, paths))
    ids, demands = np.zeros((count, nodes), dtype=np.int64), np.zeros((count, nodes), dtype=np.int64)
    path = np.zeros((count, tokens), dtype=np.int64)
    for row, (instance, nodes_of_path) in enumerate(zip(instances, paths, strict=True)):
        ids[row, : instance.n + 1] = instance.nodes
        demands[row, 1 : instance.n + 1] = instance.demands
        path[row, : len(nodes_of_path)] = np.searchsorted(instance.nodes, nodes_of_path)
    angle = torch.linspace(0.1, 6.0, count) if rotated else None
    return Batch(
        ids=torch.from_numpy(ids),
        demands=torch.from_numpy(demands),
        capacity=torch.tensor([instance.capacity for instance in instances]),
        lengths=torch.tensor(sizes) + 1,
        path=torch.from_numpy(path),
        path_lengths=torch.tensor([len(p) for p in paths]),
        angle=angle,
        padded=min(sizes) < max(sizes),
    )
