"""Devices of networks: the one to decode on, names in tables, threads and processes of decoding on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from mcvrp.model.decoding import Map, map_here
from mcvrp.model.network import FmMcvrp
from mcvrp.tasks.solvers.solver import ONE_CORE
from mcvrp.tasks.support.pool import Pool

# Upper limit for decoding in several processes, each with a copy of the network.
_MOST_PARAMETERS = 1 << 24


def placed(network: FmMcvrp) -> FmMcvrp:
    """Return ``network`` on the GPU if there is one, in bf16 if that has it: about half the time of fp32."""
    if torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            network = network.to_bf16()
        network = network.to("cuda")
    return network


def device_text(model: nn.Module, cores: int = 1) -> str:
    """Return the device of ``model`` for tables: the GPU, or a number of cores."""
    if next(model.parameters()).device.type != "cpu":
        return f"GPU ({torch.cuda.get_device_name()})"
    return ONE_CORE if cores == 1 else f"{cores} CPU cores"


def cores_of(model: nn.Module, pool: Pool | None) -> int:
    """Return the number of CPU cores that decode with ``model``; 1 on a GPU."""
    if next(model.parameters()).device.type != "cpu":
        return 1
    return pool.processes if pool and _shared(model) else torch.get_num_threads()


@contextmanager
def decoding_map(model: nn.Module, pool: Pool | None) -> Iterator[Map]:
    """Yield the map that decodes batches with ``model``: the processes of ``pool``, one thread each.

    Without a pool, on a GPU, or for a network too large to be copied, this process with its threads.
    """
    if pool is None or not _shared(model):
        yield map_here
        return
    with torch_threads(1):
        yield pool.map


def _shared(model: nn.Module) -> bool:
    parameters = list(model.parameters())
    return parameters[0].device.type == "cpu" and sum(p.numel() for p in parameters) <= _MOST_PARAMETERS


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of PyTorch threads; on a busy machine, several threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
