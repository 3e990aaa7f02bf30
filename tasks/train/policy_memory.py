"""Minimum memory of a policy-gradient phase: the paths of one instance, checked before training."""

from __future__ import annotations

from pathlib import Path

from mcvrp.memory import available_memory
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.train.resume import network_of
from mcvrp.tasks.train.spec import NetworkSpec, TrainSpec

_BYTES = 4  # per number
# Activations that the gradient of one token of a path needs, counted in `model.network`: per decoder layer
# so many vectors of the embedding dimension and of the feed-forward dimension, and once per node.
_OF_WIDTH, _OF_FF, _OF_NODE = 14, 3, 6
_COPIES = 4  # weights, gradients, two moments


def require_memory(city: City, spec: TrainSpec, ranks: int) -> None:
    """Raise McvrpError if the paths of a single instance cannot fit into the free memory.

    A lower bound, with paths of half the maximum length. A phase that passes may still run out of memory
    in a step, and then reports the micro-batch that fits.
    """
    phases = [(phase, phase.policy) for phase in spec.phases if phase.policy]
    if not phases:
        return
    from mcvrp.model.network import NetworkConfig  # here: the import takes seconds

    parameters = NetworkConfig(**network_of(city, spec)).parameters()
    free, weights = _free_bytes() / ranks, _COPIES * _BYTES * parameters
    for phase, policy in phases:
        path_bytes = _bytes_per_path(spec.network, phase.last)
        needed, fit = weights + policy.samples * path_bytes, int((free - weights) // path_bytes)
        if fit < policy.samples:
            remedy = f"{fit:,} would fit" if fit > 1 else "not even two would fit: train a smaller network"
            raise McvrpError(
                f"phase {phase.name}: policy.samples = {policy.samples:,} paths of {phase.last} customers "
                f"need {needed / 2**30:,.1f} GiB, a rank has {free / 2**30:,.1f} GiB: {remedy}"
            )


def _free_bytes() -> int:
    if not Path("/proc/driver/nvidia").exists():
        return available_memory()
    import torch

    return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(torch.cuda.device_count()))


def _bytes_per_path(network: NetworkSpec, n: int) -> int:
    layer = _OF_WIDTH * network.dim + _OF_FF * network.ff
    return _BYTES * n * (network.decoder_layers * layer + _OF_NODE * (n + 1))
