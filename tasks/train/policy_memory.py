"""Memory that a phase by policy needs at least: the paths of one instance, before anything is drawn."""

from __future__ import annotations

from pathlib import Path

from mcvrp.memory import available_memory
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.tasks.train.resume import network_of
from mcvrp.tasks.train.spec import NetworkSpec, TrainSpec

_BYTES = 4  # of a number
# What the gradient of a path's token holds on to, counted in a decoder layer of `model.network`: numbers of
# the width, and of the feed-forward layer's; and, once, of each node that it may choose.
_OF_WIDTH, _OF_FF, _OF_NODE = 14, 3, 6
_COPIES = 4  # weights, gradients, Adam's moments


def require_memory(city: City, spec: TrainSpec, ranks: int) -> None:
    """Raise McvrpError where the paths of a single instance cannot fit into what memory is free.

    A lower bound: half of the longest that the paths can be. What is larger may still run out, and then
    says how much fits.
    """
    phases = [(phase, phase.policy) for phase in spec.phases if phase.policy]
    if not phases:
        return
    from mcvrp.model.network import NetworkConfig  # here: the import takes seconds

    parameters = NetworkConfig(**network_of(city, spec)).parameters()
    free, weights = _free_bytes() / ranks, _COPIES * _BYTES * parameters
    for phase, policy in phases:
        a_path = _bytes_a_path(spec.network, phase.last)
        needed, fit = weights + policy.samples * a_path, int((free - weights) // a_path)
        if fit < policy.samples:
            few = f"{fit:,} would fit" if fit > 1 else "not even two would fit: train a smaller network"
            raise McvrpError(
                f"phase {phase.name}: policy.samples = {policy.samples:,} paths of {phase.last} customers "
                f"need {needed / 2**30:,.1f} GiB, a rank has {free / 2**30:,.1f} GiB: {few}"
            )


def _free_bytes() -> int:
    if not Path("/proc/driver/nvidia").exists():
        return available_memory()
    import torch

    return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(torch.cuda.device_count()))


def _bytes_a_path(network: NetworkSpec, n: int) -> int:
    layer = _OF_WIDTH * network.dim + _OF_FF * network.ff
    return _BYTES * n * (network.decoder_layers * layer + _OF_NODE * (n + 1))
